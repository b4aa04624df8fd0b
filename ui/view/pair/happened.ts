// Events of a pair as marks of its charts.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useMemo } from "preact/hooks";
import type { Mark } from "../../chart/plot.ts";
import { serverClient } from "../../data/client.ts";
import { events } from "../../data/events.ts";
import { resource, useResource } from "../../data/resource.ts";
import { millis } from "../../data/time.ts";
import type { Event } from "../../gen/server_pb.ts";

const day = 86_400_000;

/** Reports whether an event is about two hosts: about one of them, and no other session or far end. */
export function concerns(e: Event, hosts: readonly string[], sessions: readonly string[]): boolean {
  if (e.session && !sessions.includes(e.session)) return false;
  if (e.agent) {
    if (!hosts.includes(e.agent)) return false;
    // Loss and paths are those of a pair; the other end stands in the message only.
    const ends = /\bfrom (\S+) to (\S+)|(\S+) (?:→|>) (\S+)/.exec(e.message);
    const pair = ends && [ends[1] ?? ends[3], ends[2] ?? ends[4]].map((w) => w?.replace(/[,:;]$/, ""));
    return !pair || !pair.includes(e.agent) || pair.every((w) => w !== undefined && (hosts.includes(w) || /[.:]/.test(w)));
  }
  return e.session !== "";
}

/** Events as marks, oldest first. */
export function marksOf(list: readonly Event[], hosts: readonly string[], sessions: readonly string[]): Mark[] {
  return list.filter((e) => concerns(e, hosts, sessions)).map((e): Mark => ({
    time: millis(e.time) ?? 0,
    level: e.level === "error" || e.level === "warning" ? e.level : "info",
    text: e.message || e.kind,
  })).sort((a, b) => a.time - b.time);
}

/** Marks of a range; what is older than a day is asked for, to the hour so that a sliding range asks seldom. */
export function useMarks(hosts: readonly string[], sessions: readonly string[], range: { from: number; to: number } | undefined): Mark[] {
  const recent = useResource(events).value.value;
  const hour = 3600e3;
  const from = range && range.from < Date.now() - day + hour ? Math.floor(range.from / hour) * hour : 0;
  const to = range && from ? Math.min(Math.ceil(range.to / hour) * hour, Date.now() + day) : 0;
  const older = useMemo(() => resource(from ? 15_000 : hour, async (signal) => {
    if (!from) return [];
    return (await serverClient.listEvents({ from: timestampFromMs(from), to: timestampFromMs(to), limit: 2000 }, { signal })).events;
  }), [from, Math.floor(to / hour)]);
  const old = useResource(older).value.value;
  const list = from ? old : recent;
  return useMemo(() => marksOf(list ?? [], hosts, sessions), [list, hosts.join(), sessions.join()]);
}
