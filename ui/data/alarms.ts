// Alarms and silences.
import { computed } from "@preact/signals";
import { alarmClient } from "./client.ts";
import { allPages, pageSize } from "./pages.ts";
import { resource } from "./resource.ts";
import { millis } from "./time.ts";
import type { Alarm, Silence } from "../gen/alarm_pb.ts";

/** Active alarms, and those that have ended lately. */
export const alarms = resource(5000, (signal) => allPages(async (pageToken) => {
  const page = await alarmClient.listAlarms({ pageSize, pageToken }, { signal });
  return { items: page.alarms, nextPageToken: page.nextPageToken };
}));

/** Silences, expired ones included. */
export const silences = resource(10_000, async (signal) => (await alarmClient.listSilences({}, { signal })).silences);

export type State = "active" | "acknowledged" | "silenced" | "ended";

/** The state of an alarm. */
export function stateOf(alarm: Alarm): State {
  if (alarm.ended) return "ended";
  if (alarm.silencedBy.length > 0) return "silenced";
  return alarm.acknowledgement ? "acknowledged" : "active";
}

const order: Record<State, number> = { active: 0, acknowledged: 1, silenced: 2, ended: 3 };

/** Alarms that need attention first, then the latest. */
export function sorted(all: readonly Alarm[]): Alarm[] {
  return [...all].sort((a, b) => order[stateOf(a)] - order[stateOf(b)] || (millis(b.began) ?? 0) - (millis(a.began) ?? 0) || a.id.localeCompare(b.id));
}

/** The number of alarms that nobody looks after. */
export const attention = computed(() => (alarms.value.value ?? []).filter((a) => stateOf(a) === "active").length);

/** Silences in effect. */
export function inEffect(all: readonly Silence[], now = Date.now()): Silence[] {
  return all.filter((s) => (millis(s.ends) ?? 0) > now);
}

/** Matchers that select an alarm, and others like it: rule and subject. */
export function matchersOf(alarm: Alarm): string {
  return ["alertname", "session", "source", "destination", "agent", "flow"]
    .flatMap((name) => alarm.labels[name] ? [`${name}=${JSON.stringify(alarm.labels[name])}`] : []).join("\n");
}

/** Acknowledges an alarm, or withdraws that. */
export async function acknowledge(id: string, comment: string, withdraw = false): Promise<void> {
  await alarmClient.acknowledgeAlarm({ id, comment, withdraw });
  await alarms.refresh();
}

/** Silences the alarms that all matchers, one a line, match. */
export async function silence(matchers: string, ns: number, comment: string): Promise<void> {
  await alarmClient.createSilence({ matchers: matchers.split("\n").map((m) => m.trim()).filter(Boolean), durationNs: BigInt(Math.round(ns)), comment });
  await Promise.all([alarms.refresh(), silences.refresh()]);
}

/** Ends a silence. */
export async function expire(id: string): Promise<void> {
  await alarmClient.expireSilence({ id });
  await Promise.all([alarms.refresh(), silences.refresh()]);
}
