// Events already seen on this device.
import { computed, signal } from "@preact/signals";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { serverClient } from "./client.ts";
import { levelOf } from "./kind.ts";
import { resource } from "./resource.ts";
import { store, stored } from "./store.ts";
import { millis } from "./time.ts";

const key = "pillion.events.seen";
const day = 86_400_000;
const most = 500;

/** Time of the newest seen event, ms since 1970; 0: none. */
export const seen = signal(Number(stored("visits", key)) || 0);

/** Marks all events up to a time as seen. */
export function see(time: number): void {
  if (time <= seen.peek()) return;
  seen.value = time;
  store("visits", key, String(time));
}

// Another tab of the browser may show the events.
addEventListener("storage", (e) => {
  if (e.key === key) see(Number(e.newValue) || 0);
});

/** Unseen warnings and errors of the last day. */
export const unseen = resource(5000, async (signal) => {
  const from = Math.max(Math.floor(seen.peek()), Date.now() - day);
  const { events } = await serverClient.listEvents({ from: timestampFromMs(from), limit: most }, { signal });
  return events.filter((e) => levelOf(e.level) !== "info").map((e) => ({ time: millis(e.time) ?? 0, level: levelOf(e.level) }));
});

/** Their number, and whether there are errors. */
export const unseenCount = computed(() => {
  const fresh = (unseen.value.value ?? []).filter((e) => e.time > seen.value);
  return { count: fresh.length, errors: fresh.some((e) => e.level === "error") };
});
