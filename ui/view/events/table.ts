// Events as a CSV file.
import { csv } from "../../data/csv.ts";
import type { Happening } from "../../data/feed.ts";

/** The events with a header line, oldest last as on the page. */
export function eventsCsv(all: readonly Happening[]): string {
  const rows = all.map(({ time, event: e }) => [new Date(time).toISOString(), e.level, e.kind, e.agent, e.peer, e.session, e.message]);
  return csv([["time", "level", "kind", "agent", "peer", "session", "message"], ...rows]);
}
