// Distributions in bins of equal width.
import { roundUp } from "../chart/scale.ts";
import { bucketWidth } from "../data/histogram.ts";
import { ceiling } from "./chart.tsx";
import type { Buckets, Times } from "./profile.ts";

/** How many values are at least from and less than to. */
export interface Bucket {
  from: number;
  to: number;
  count: number;
}

export interface Bins {
  edges: number[];
  /** The part of all values in each bin. */
  parts: number[];
  width: number;
  /** Values beyond the last bin. */
  beyond: number;
}

/** The buckets of a distribution of times, of which the outer ones end at the extremes. */
export const timeBuckets = ({ bounds, counts }: Buckets, { min, max }: Times): Bucket[] =>
  (bounds ?? []).map((bound, i) => ({ from: Math.max(bound, min ?? 0), to: Math.min(bound + bucketWidth(bound), (max ?? 0) + 1), count: counts?.[i] ?? 0 }));

/** How often 0, 1, 2 and so on occurred, each in the middle of a bin of width 1. */
export const numberBuckets = (counts: readonly number[] | null): Bucket[] => (counts ?? []).map((count, i) => ({ from: i - 0.5, to: i + 0.5, count }));

/** Bins of nearly all values: not of the highest thousandth, nor of those beyond three times the 99th percentile. */
export function binned(buckets: readonly Bucket[], most: number, leastEnd: number, leastWidth = 0): Bins {
  const total = buckets.reduce((sum, b) => sum + b.count, 0);
  const start = Math.min(0, buckets[0]?.from ?? 0);
  const end = ceiling(Math.max(leastEnd, Math.min(1.02 * quantile(buckets, 0.999 * total), 3 * quantile(buckets, 0.99 * total))));
  const width = Math.max(leastWidth, roundUp(end / most));
  const parts = new Array<number>(Math.ceil((end - start) / width - 1e-9)).fill(0);
  for (const { from, to, count } of buckets) {
    for (let i = Math.floor((from - start) / width); i < parts.length && start + i * width < to; i++) {
      const inside = Math.min(to, start + (i + 1) * width) - Math.max(from, start + i * width);
      parts[i] = (parts[i] ?? 0) + ((inside / (to - from)) * count) / total;
    }
  }
  const beyond = Math.round(Math.max(0, 1 - parts.reduce((a, b) => a + b, 0)) * total);
  return { edges: [...parts, 0].map((_, i) => start + i * width), parts, width, beyond };
}

/** The end of the bucket with the value of that rank. */
function quantile(buckets: readonly Bucket[], rank: number): number {
  let below = 0;
  return buckets.find((b) => (below += b.count) >= rank)?.to ?? 0;
}

/** Reports whether one bin hides the others on a linear axis. */
export function isSteep({ parts }: Bins): boolean {
  const peak = Math.max(...parts);
  return peak > 0.4 || peak * parts.filter((p) => p > 0).length > 25;
}
