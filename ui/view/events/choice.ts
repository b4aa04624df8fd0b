// Which events are shown, all of it in the address.
import { computed } from "@preact/signals";
import { type Happening, type Period } from "../../data/feed.ts";
import { kindOf, levelOf, type Level } from "../../data/kind.ts";
import { refine, route } from "../../data/route.ts";

/** Ranges to choose from. */
export const ranges = [
  { key: "1h", label: "1 h", words: "the last hour", length: 3_600_000 },
  { key: "24h", label: "24 h", words: "the last 24 hours", length: 86_400_000 },
  { key: "7d", label: "7 d", words: "the last 7 days", length: 7 * 86_400_000 },
  { key: "30d", label: "30 d", words: "the last 30 days", length: 30 * 86_400_000 },
] as const;

const usual = ranges[1];

export type Range = (typeof ranges)[number];

/** Lowest level shown. */
export type Least = "info" | "warning" | "error";

export interface Choice {
  range: Range;
  /** A selected period in place of the range. */
  part: { from: number; to: number } | undefined;
  least: Least;
  kind: string;
  agent: string;
  session: string;
  text: string;
}

/** Reads a choice from the address; invalid parts are ignored. */
export function choiceOf(query: URLSearchParams): Choice {
  const from = Number(query.get("from") ?? NaN);
  const to = Number(query.get("to") ?? NaN);
  const level = query.get("level");
  return {
    range: ranges.find((r) => r.key === query.get("range")) ?? usual,
    part: to > from && from > 0 ? { from, to } : undefined,
    least: level === "warning" || level === "error" ? level : "info",
    kind: query.get("kind") ?? "", agent: query.get("agent") ?? "", session: query.get("session") ?? "", text: query.get("text") ?? "",
  };
}

/** The choice in the current address. */
export const choice = computed(() => choiceOf(route.value.query));

/** The period of a choice. */
export const periodOf = (c: Choice): Period => c.part ?? { last: c.range.length };

/** Chooses another range and clears the selected period. */
export const chooseRange = (r: Range): void => refine({ range: r === usual ? undefined : r.key, from: undefined, to: undefined });

/** Selects a period. */
export const choosePart = (from: number, to: number): void => refine({ from: Math.round(from), to: Math.round(to) });

/** Shows all events of the range. */
export const chooseAll = (): void => refine({ level: undefined, kind: undefined, agent: undefined, session: undefined, text: undefined });

/** Reports whether there is a filter besides the time. */
export const filters = (c: Choice): boolean => Boolean(c.least !== "info" || c.kind || c.agent || c.session || c.text);

const rank: Record<Level, number> = { info: 0, warning: 1, error: 2 };

/** The matching events. */
export function matching(all: readonly Happening[], c: Choice): Happening[] {
  const words = c.text.toLowerCase().split(/\s+/).filter(Boolean);
  return all.filter(({ event: e }) => {
    if (rank[levelOf(e.level)] < rank[c.least]) return false;
    if (c.kind && e.kind !== c.kind || c.session && e.session !== c.session) return false;
    if (c.agent && e.agent !== c.agent && e.peer !== c.agent) return false;
    if (!words.length) return true;
    const text = `${kindOf(e.kind).label} ${e.kind} ${e.agent} ${e.peer} ${e.session} ${e.message}`.toLowerCase();
    return words.every((w) => text.includes(w));
  });
}
