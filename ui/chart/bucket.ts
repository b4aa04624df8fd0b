// Histograms in rows of equal height.
import { bucketWidth, type Histogram } from "../data/histogram.ts";

/** Where bucket k of a histogram ends. */
export const upperAt = ({ bounds }: Histogram, k: number): number => (bounds[k] ?? NaN) + bucketWidth(bounds[k] ?? NaN);

/** Index of the bucket that holds a value; -1: none. */
export function bucketAt(histogram: Histogram, value: number): number {
  const k = histogram.bounds.findLastIndex((bound) => bound <= value);
  return k >= 0 && value < upperAt(histogram, k) ? k : -1;
}

/** Values of all buckets. */
export const total = ({ counts }: Histogram): number => counts.reduce((a, b) => a + b, 0);

/** Rows of equal height, counted from below. */
export interface Rows {
  count: number;
  /** Where a value is, in rows from below. */
  place: (value: number) => number;
}

/** regroup splits the count of each bucket over the rows that it overlaps, by how much of it lies in each. */
export function regroup(histogram: Histogram, { count, place }: Rows): Float64Array {
  const into = new Float64Array(count);
  for (let k = 0; k < histogram.bounds.length; k++) {
    const n = histogram.counts[k] ?? 0;
    const to = place(upperAt(histogram, k));
    // a logarithm has no place for zero: what begins there begins just below the rows
    const from = Math.max(place(histogram.bounds[k] ?? 0), Math.min(-1, to));
    if (!(to > 0 && from < count) || n === 0) continue;
    const first = Math.max(0, Math.floor(from));
    const last = Math.min(count - 1, Math.ceil(to) - 1);
    for (let r = first; r <= last; r++) into[r] = (into[r] ?? 0) + (n * (Math.min(to, r + 1) - Math.max(from, r))) / (to - from);
  }
  return into;
}
