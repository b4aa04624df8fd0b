// Histograms of signed nanoseconds, in the one layout of package measure/histogram
// (probe/bpf/histogram.h): exact below 64 ns, from there 32 buckets an octave, from
// 2^36 ns on one. Negative values mirror the others by their one's complement.

/** The buckets that hold values: parallel lists, bounds ascending. */
export interface Histogram {
  /** Lower bounds, ns. */
  bounds: readonly number[];
  /** Values in each bucket. */
  counts: readonly number[];
  /** Sums of value minus lower bound over the values of each bucket; undefined: unknown, values count as evenly spread. */
  offsets?: readonly number[];
}

const firstOctave = 6;
const exactEnd = 2 ** firstOctave;
const wideOctave = 36;
const octaveBits = 5;

/** How many integers the bucket of a value holds; the first one is a multiple of this number. */
export function bucketWidth(value: number): number {
  const size = Math.abs(value);
  let octave = Math.floor(Math.log2(size));
  if (2 ** octave > size) octave--; // the logarithm was rounded up
  if (value < 0 && 2 ** octave === size) octave--; // the mirrored value is smaller by one
  if (size < exactEnd || octave < firstOctave) return 1;
  return 2 ** (octave < wideOctave ? octave - octaveBits : octave);
}

/** The values of all histograms as one. Without the offsets of one, offsets are unknown. */
export function merge(list: readonly Histogram[]): Histogram {
  const buckets = new Map<number, [count: number, offset: number]>();
  let known = true;
  for (const { bounds, counts, offsets } of list) {
    if (bounds.length > 0 && !offsets) known = false;
    bounds.forEach((given, i) => {
      const width = bucketWidth(given);
      const bound = Math.floor(given / width) * width;
      if (bound !== given) known = false; // of another layout
      const [count, offset] = buckets.get(bound) ?? [0, 0];
      buckets.set(bound, [count + (counts[i] ?? 0), offset + (offsets?.[i] ?? 0)]);
    });
  }
  const sorted = [...buckets].filter(([, [count]]) => count > 0).sort(([a], [b]) => a - b);
  return {
    bounds: sorted.map(([bound]) => bound),
    counts: sorted.map(([, [count]]) => count),
    offsets: known ? sorted.map(([, [, offset]]) => offset) : undefined,
  };
}

/**
 * The value of rank ceil(q · total), at least the first, between the exact extremes; NaN without values.
 * Within its bucket a value is placed as if the values there were spread evenly around their mean.
 */
export function quantile({ bounds, counts, offsets }: Histogram, q: number, min = -Infinity, max = Infinity): number {
  const total = counts.reduce((a, b) => a + b, 0);
  if (total === 0) return NaN;
  const rank = Math.max(1, Math.ceil(q * total));
  let below = 0;
  for (let i = 0; i < bounds.length; i++) {
    const [bound = NaN, count = 0] = [bounds[i], counts[i]];
    if (below + count < rank) {
      below += count;
      continue;
    }
    const low = Math.max(bound, min);
    const high = Math.min(bound + bucketWidth(bound), max + 1); // an integer stands for the range up to the next
    const mean = offsets ? Math.max(low, Math.min(high, bound + (offsets[i] ?? 0) / count + 0.5)) : (low + high) / 2;
    const half = Math.min(mean - low, high - mean);
    const share = (rank - below - 0.5) / count;
    return Math.max(min, Math.min(max, Math.floor(mean + (2 * share - 1) * half)));
  }
  return max;
}
