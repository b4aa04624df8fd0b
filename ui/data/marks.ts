// Events as marks on a chart: what happened to two hosts, or to anything, in a range
// of time.
import type { Mark } from "../chart/plot.ts";
import type { Event } from "../gen/server_pb.ts";
import { kindOf, levelOf, type Level } from "./kind.ts";
import { millis } from "./time.ts";

/** Which events become marks; what is left out does not choose. */
export interface MarkChoice {
  /**
   * Hosts that the chart is about. An event of a pair is marked when both its hosts
   * are among them, one of a single host when that is, one of no host always.
   */
  agents?: readonly string[];
  /** The chart's session; events of other sessions are left out. */
  session?: string;
  /** Range of time, ms since 1970. */
  from?: number;
  to?: number;
}

const rank: Record<Level, number> = { info: 0, warning: 1, error: 2 };

/** The events that a choice lets through, as marks, oldest first. Those of one text within a second are one. */
export function marksOf(events: readonly Event[], choice: MarkChoice = {}): Mark[] {
  const marks: Mark[] = [];
  for (const event of events) {
    const time = millis(event.time);
    if (time === undefined || !chosen(event, time, choice)) continue;
    marks.push({ time, level: levelOf(event.level), text: event.message || kindOf(event.kind).label });
  }
  marks.sort((a, b) => a.time - b.time || rank[b.level] - rank[a.level]);
  return marks.filter((mark, i) => {
    const before = marks[i - 1];
    return !before || before.text !== mark.text || mark.time - before.time > 1000;
  });
}

function chosen(event: Event, time: number, { agents, session, from, to }: MarkChoice): boolean {
  if (from !== undefined && time < from) return false;
  if (to !== undefined && time > to) return false;
  if (session && event.session && event.session !== session) return false;
  const hosts = [event.agent, event.peer].filter(Boolean);
  return !agents || hosts.every((host) => agents.includes(host));
}
