// Number of events in each part of a period.
import type { Happening } from "../../data/feed.ts";
import { levelOf } from "../../data/kind.ts";

export interface Bin {
  from: number;
  to: number;
  info: number;
  warning: number;
  error: number;
}

// Round lengths of time, ms.
const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400].map((s) => s * 1000);

/** Counts the events of a period in at most `most` parts of a round length. */
export function binsOf(all: readonly Happening[], from: number, to: number, most = 60): Bin[] {
  const length = Math.max(to - from, 1000);
  const step = steps.find((s) => length / s <= most - 1) ?? Math.ceil(length / (most - 1));
  // Aligned in local time: a day begins at midnight.
  const shift = new Date(from).getTimezoneOffset() * 60_000;
  const first = Math.floor((from - shift) / step) * step + shift;
  const bins: Bin[] = [];
  for (let at = first; at < from + length; at += step) bins.push({ from: at, to: at + step, info: 0, warning: 0, error: 0 });
  for (const { time, event } of all) {
    const bin = bins[Math.floor((time - first) / step)];
    if (bin) bin[levelOf(event.level)]++;
  }
  return bins;
}
