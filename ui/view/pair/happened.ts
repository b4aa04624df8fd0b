// Events of a pair as marks of its charts.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useMemo } from "preact/hooks";
import type { Mark } from "../../chart/plot.ts";
import { serverClient } from "../../data/client.ts";
import { events } from "../../data/events.ts";
import { marksOf } from "../../data/marks.ts";
import { resource, useResource } from "../../data/resource.ts";

const day = 86_400_000;

/** Marks of a range. Events older than a day are requested by the hour, so that a sliding range rarely asks again. */
export function useMarks(agents: readonly string[], sessions: readonly string[], range: { from: number; to: number } | undefined): Mark[] {
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
  return useMemo(() => marksOf(list ?? [], { agents, sessions }), [list, agents.join(), sessions.join()]);
}
