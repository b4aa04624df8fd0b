// Events as marks on a chart.
import type { Mark } from "../chart/plot.ts";
import type { Event } from "../gen/server_pb.ts";
import { kindOf, levelOf, type Level } from "./kind.ts";
import { millis } from "./time.ts";

/** What a chart is about. */
interface Subjects {
  /** Its hosts. An event of a pair is marked if both its hosts are among them. */
  agents: readonly string[];
  /** Its sessions. Events of other sessions are left out. */
  sessions: readonly string[];
}

const rank: Record<Level, number> = { info: 0, warning: 1, error: 2 };

/** The events that concern a chart as marks, oldest first. The same text within a second is one mark. */
export function marksOf(events: readonly Event[], subjects: Subjects): Mark[] {
  const marks = events.filter((e) => concerns(e, subjects)).flatMap((e): Mark[] => {
    const time = millis(e.time);
    return time === undefined ? [] : [{ time, level: levelOf(e.level), text: e.message || kindOf(e.kind).label }];
  });
  marks.sort((a, b) => a.time - b.time || rank[b.level] - rank[a.level]);
  return marks.filter((mark, i) => {
    const before = marks[i - 1];
    return !before || before.text !== mark.text || mark.time - before.time > 1000;
  });
}

function concerns({ agent, peer, session }: Event, { agents, sessions }: Subjects): boolean {
  const hosts = [agent, peer].filter(Boolean);
  if (hosts.length === 0 && session === "") return false;
  return (session === "" || sessions.includes(session)) && hosts.every((host) => agents.includes(host));
}
