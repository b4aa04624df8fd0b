// Where the axis of values begins and ends: on ticks, so that it seldom changes
// while values come in.
import { roundUp } from "./scale.ts";
import type { Range, TimeChartProps } from "./plot.ts";

/** Extends `into` by the smallest and largest finite values of values[start..end). */
export function extremes(values: ArrayLike<number>, start: number, end: number, into: [number, number], above = -Infinity): void {
  let [low, high] = into;
  for (let i = start; i < end; i++) {
    const v = values[i] ?? NaN;
    if (v < low && v > above && v > -Infinity) low = v;
    if (v > high && v < Infinity) high = v;
  }
  into[0] = low;
  into[1] = high;
}

/** First index in ascending times that is not before t. */
export function indexAt(times: ArrayLike<number>, t: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? 0) < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the time nearest to t; -1: none. */
export function nearest(times: ArrayLike<number>, t: number): number {
  const i = indexAt(times, t);
  if (i > 0 && (i === times.length || t - (times[i - 1] ?? 0) < (times[i] ?? 0) - t)) return i - 1;
  return i < times.length ? i : -1;
}

/** Indices of the times in a range plus one on either side, to which lines lead. */
export function within(times: ArrayLike<number>, range: Range): [number, number] {
  return [Math.max(0, indexAt(times, range.from) - 1), Math.min(times.length, indexAt(times, range.to) + 1)];
}

/** Ends of the axis for values between low and high; low is above high if there are none. */
export function axisEnds(low: number, high: number, scale: TimeChartProps["scale"] = "zero", atLeast?: number): [number, number] {
  if (scale === "log") return logEnds(low, high, atLeast);
  if (low > high) return [0, atLeast ?? 1];
  if (scale === "zero") {
    low = Math.min(0, low);
    high = Math.max(high, atLeast ?? 0, low < 0 ? 0 : -Infinity);
  } else if (atLeast !== undefined && high < atLeast) {
    high = atLeast;
  }
  if (high === low) return around(low, scale);
  const pad = (high - low) * 0.04;
  const step = roundUp((high - low + 2 * pad) / 8);
  const exact = scale === "zero" && high === atLeast;
  const top = exact ? high : Math.ceil((high + pad) / step - 1e-9) * step;
  const bottom = low === 0 && scale === "zero" ? 0 : Math.floor((low - pad) / step + 1e-9) * step;
  return [bottom, top];
}

function around(v: number, scale: "zero" | "fit"): [number, number] {
  if (v === 0) return [0, 1];
  if (scale === "zero") return [0, 1];
  const pad = roundUp(Math.abs(v) * 0.01);
  return [v - pad, v + pad];
}

function logEnds(low: number, high: number, atLeast = 0): [number, number] {
  if (!(high > 0) || low > high) return [1, Math.max(10, atLeast)];
  high = roundUp(Math.max(high * 1.05, atLeast));
  const power = 10 ** Math.floor(Math.log10(low));
  const lead = low / power;
  low = (lead >= 5 ? 5 : lead >= 2 ? 2 : 1) * power;
  return low < high ? [low, high] : [low / 2, high];
}

/** Ends of the axis for the lines of a chart in its range. */
export function lineEnds({ times, lines, bands = [], scale, atLeast, range }: TimeChartProps): [number, number] {
  const [start, end] = within(times, range);
  const found: [number, number] = [Infinity, -Infinity];
  const edges = new Set(bands.flatMap((b) => [b.low, b.high]));
  lines.forEach((line, i) => {
    if (!line.hidden || edges.has(i)) extremes(line.values, start, end, found, scale === "log" ? 0 : -Infinity);
  });
  return axisEnds(found[0], found[1], scale, atLeast);
}
