// Which events the user has seen, on this device.
import { computed, signal } from "@preact/signals";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { serverClient } from "./client.ts";
import { levelOf } from "./kind.ts";
import { resource } from "./resource.ts";
import { millis } from "./time.ts";

const key = "pillion.events.seen";
const day = 86_400_000;
const most = 500;

const stored = (): number => {
  try {
    return Number(localStorage.getItem(key)) || 0;
  } catch {
    return 0;
  }
};

/** Time of the newest event that was seen, ms since 1970; 0: none yet. */
export const seen = signal(stored());

/** Notes that all events up to a time were seen. */
export function see(time: number): void {
  if (time <= seen.peek()) return;
  seen.value = time;
  try {
    localStorage.setItem(key, String(time));
  } catch {
    // lasts as long as the page
  }
}

// Another tab of this browser may show the events.
addEventListener("storage", (e) => {
  if (e.key === key) see(Number(e.newValue) || 0);
});

/** Warnings and errors of the last day that nobody looked at. */
export const unseen = resource(5000, async (signal) => {
  const from = Math.max(Math.floor(seen.peek()), Date.now() - day);
  const { events } = await serverClient.listEvents({ from: timestampFromMs(from), limit: most }, { signal });
  return events.filter((e) => levelOf(e.level) !== "info").map((e) => ({ time: millis(e.time) ?? 0, level: levelOf(e.level) }));
});

/** How many these are, and how bad the worst is. */
export const unseenCount = computed(() => {
  const fresh = (unseen.value.value ?? []).filter((e) => e.time > seen.value);
  return { count: fresh.length, errors: fresh.some((e) => e.level === "error") };
});
