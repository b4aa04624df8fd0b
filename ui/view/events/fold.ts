// Events by day, with repeated ones folded.
import type { Happening } from "../../data/feed.ts";

/** Consecutive events of one kind about the same subject, newest first. */
export type Fold = [Happening, ...Happening[]];

export interface Day {
  /** Local midnight, ms since 1970. */
  start: number;
  folds: Fold[];
}

const alike = ({ event: a }: Happening, { event: b }: Happening): boolean =>
  a.kind === b.kind && a.level === b.level && a.agent === b.agent && a.peer === b.peer && a.session === b.session;

/** Local midnight before a time. */
export function midnight(time: number): number {
  const d = new Date(time);
  return new Date(d.getFullYear(), d.getMonth(), d.getDate()).getTime();
}

/** Groups events, newest first, into days and folds. */
export function foldDays(all: readonly Happening[]): Day[] {
  const days: Day[] = [];
  for (const one of all) {
    const start = midnight(one.time);
    let day = days.at(-1);
    if (!day || day.start !== start) days.push((day = { start, folds: [] }));
    const last = day.folds.at(-1);
    if (last && alike(last[0], one)) last.push(one);
    else day.folds.push([one]);
  }
  return days;
}

/** The first folds, by day. */
export function firstOf(days: readonly Day[], folds: number): Day[] {
  const shown: Day[] = [];
  for (const day of days) {
    if (folds <= 0) break;
    shown.push({ start: day.start, folds: day.folds.slice(0, folds) });
    folds -= day.folds.length;
  }
  return shown;
}

const weekday = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" });

/** A day as text: Today, Yesterday, or its date. */
export function dayWords(start: number, now = Date.now()): string {
  const today = midnight(now);
  if (start === today) return "Today";
  return start === midnight(today - 1) ? "Yesterday" : weekday.format(start);
}
