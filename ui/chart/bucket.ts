// The buckets of histograms of delay: where each ends, and how their counts fall
// into rows of equal height.

/** Packets of one window: lower bounds of buckets, ns, ascending, and what they hold. */
export interface Histogram {
  bounds: ArrayLike<number>;
  counts: ArrayLike<number>;
}

/**
 * Where a bucket with this lower bound ends: the layout of probe/destination/histogram.h.
 * From zero on: steps of 32 ns below 1024, then 32 buckets an octave, from 2^36 one.
 * Below zero, mirrored: steps of 32 ns to -256, then 8 buckets an octave, from -2^36 one.
 */
export function upperEdge(bound: number): number {
  if (bound < 0) {
    const size = -bound;
    if (size <= 256) return bound + Math.min(32, size);
    if (size > 2 ** 36) return bound / 2;
    return bound + 2 ** (Math.ceil(Math.log2(size)) - 1 - 3);
  }
  if (bound < 1024) return bound + 32;
  return bound + (bound < 2 ** 36 ? 2 ** (Math.floor(Math.log2(bound)) - 5) : bound);
}

/** upperAt is where bucket k of a histogram ends: never beyond the next that holds something. */
export const upperAt = ({ bounds }: Histogram, k: number): number => Math.min(upperEdge(bounds[k] ?? 0), bounds[k + 1] ?? Infinity);

/** Index of the bucket in which a value lies; -1: none. */
export function bucketAt(histogram: Histogram, value: number): number {
  const { bounds } = histogram;
  let low = 0;
  let high = bounds.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((bounds[middle] ?? 0) <= value) low = middle + 1;
    else high = middle;
  }
  return low > 0 && value < upperAt(histogram, low - 1) ? low - 1 : -1;
}

/** Packets of all buckets. */
export function total({ counts }: Histogram): number {
  let sum = 0;
  for (let k = 0; k < counts.length; k++) sum += counts[k] ?? 0;
  return sum;
}

/** Rows of equal height from `low` up; a height is what a scale makes of a value. */
export interface Rows {
  height: (value: number) => number;
  low: number;
  high: number;
  count: number;
}

/** regroup splits the count of each bucket over the rows that it overlaps, by how much of it lies in each. */
export function regroup(histogram: Histogram, rows: Rows): Float64Array {
  const into = new Float64Array(rows.count);
  const perHeight = rows.count / (rows.high - rows.low);
  const row = (value: number) => (rows.height(value) - rows.low) * perHeight;
  for (let k = 0; k < histogram.bounds.length; k++) {
    const n = histogram.counts[k] ?? 0;
    const to = row(upperAt(histogram, k));
    // a logarithm has no place for zero: what begins there begins just below the rows
    const from = Math.max(row(histogram.bounds[k] ?? 0), Math.min(-1, to));
    if (!(to > 0 && from < rows.count) || n === 0) continue;
    const first = Math.max(0, Math.floor(from));
    const last = Math.min(rows.count - 1, Math.ceil(to) - 1);
    for (let r = first; r <= last; r++) into[r] = (into[r] ?? 0) + (n * (Math.min(to, r + 1) - Math.max(from, r))) / (to - from);
  }
  return into;
}
