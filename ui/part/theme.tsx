// Light, dark or system theme.
import { computed, effect, signal } from "@preact/signals";
import { store, stored } from "../data/store.ts";
import { Icon } from "./icon.tsx";

const key = "pillion.theme";
const order = ["system", "light", "dark"] as const;
type Theme = (typeof order)[number];

const chosen = signal<Theme>(order.find((t) => t === stored("visits", key)) ?? "system");
const query = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : undefined;
const systemDark = signal(query?.matches ?? false);
query?.addEventListener("change", (e) => (systemDark.value = e.matches));

/** Whether the page is dark. Canvases do not follow the style sheet and are redrawn when it changes. */
export const dark = computed(() => (chosen.value === "system" ? systemDark.value : chosen.value === "dark"));

effect(() => {
  document.documentElement.dataset.theme = dark.value ? "dark" : "light";
  store("visits", key, chosen.value);
});

/** ThemeButton switches to the next theme. */
export function ThemeButton() {
  const next = order[(order.indexOf(chosen.value) + 1) % order.length] ?? "system";
  const icon = chosen.value === "system" ? "system" : chosen.value === "light" ? "sun" : "moon";
  return (
    <button class="quiet icon-only" type="button" aria-label={`Theme: ${chosen.value}; change to ${next}`} title={`Theme: ${chosen.value}`} onClick={() => (chosen.value = next)}>
      <Icon name={icon} />
    </button>
  );
}
