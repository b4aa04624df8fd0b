// What was measured in a length of time, as plain numbers.
import type { Distribution, Window as WindowMessage } from "../gen/flow_pb.ts";

/** Distribution of a time, ns; NaN where nothing was measured. */
export interface Spread {
  count: number;
  min: number;
  mean: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

/** What was measured in one window of time. */
export interface Figures {
  /** Its start, ms since 1970. */
  start: number;
  packets: number;
  bytes: number;
  expected: number;
  lost: number;
  duplicated: number;
  reordered: number;
  late: number;
  delay: Spread;
  ipdv: Spread;
  /** Bound of what both clocks together may be off, ns; NaN: unknown. */
  clockError: number;
  /** Lower bounds of the delay's buckets, ns, ascending, and what they hold. */
  bounds: number[];
  counts: number[];
}

const nothing: Spread = { count: 0, min: NaN, mean: NaN, p50: NaN, p90: NaN, p99: NaN, max: NaN };

function spread(d: Distribution | undefined): Spread {
  if (!d || d.count === 0n) return nothing;
  return { count: Number(d.count), min: d.minNs, mean: d.meanNs, p50: d.p50Ns, p90: d.p90Ns, p99: d.p99Ns, max: d.maxNs };
}

/** Takes a window out of its message. */
export function figuresOf(w: WindowMessage): Figures {
  return {
    start: Number(w.startMs),
    packets: Number(w.packets),
    bytes: Number(w.bytes),
    expected: Number(w.expected),
    lost: Number(w.lost),
    duplicated: Number(w.duplicated),
    reordered: Number(w.reordered),
    late: Number(w.late),
    delay: spread(w.delay),
    ipdv: spread(w.ipdv),
    clockError: w.clockErrorNs,
    bounds: w.boundsNs,
    counts: w.counts,
  };
}

/** Lost of expected packets, 0 to 1; NaN where none was expected. */
export const lossIn = (f: Figures): number => (f.expected > 0 ? f.lost / f.expected : NaN);

const late = 1500; // ms after which the rows of a window have come
const least = 5000; // ms that a growing window must have lasted before a rate says something

/**
 * How long of a window has been measured at a time, ms: its step, less while it grows, and NaN when that
 * is too short for a rate. Windows of a second are those of rows, which come whole.
 */
export function measuredIn(f: Figures, step: number, now: number): number {
  const length = now - late - f.start;
  if (step <= 1000 || !(length < step)) return step;
  return length < least ? NaN : length;
}

/** Bits a second of a window of so many ms. */
export const rateIn = (f: Figures, step: number): number => (f.bytes * 8000) / step;

/** Packets a second of a window of so many ms. */
export const packetsIn = (f: Figures, step: number): number => (f.packets * 1000) / step;

/**
 * Adds up windows. Quantiles of delay come from the histograms; without them, and
 * for the change of delay, from the window with most packets.
 */
export function sum(list: readonly Figures[]): Figures | undefined {
  const first = list[0];
  if (!first) return undefined;
  const all: Figures = { ...first, packets: 0, bytes: 0, expected: 0, lost: 0, duplicated: 0, reordered: 0, late: 0 };
  const buckets = new Map<number, number>();
  for (const f of list) {
    all.packets += f.packets;
    all.bytes += f.bytes;
    all.expected += f.expected;
    all.lost += f.lost;
    all.duplicated += f.duplicated;
    all.reordered += f.reordered;
    all.late += f.late;
    all.clockError = Math.max(all.clockError, f.clockError); // NaN, unknown, stays
    f.bounds.forEach((b, i) => buckets.set(b, (buckets.get(b) ?? 0) + (f.counts[i] ?? 0)));
  }
  all.bounds = [...buckets.keys()].sort((a, b) => a - b);
  all.counts = all.bounds.map((b) => buckets.get(b) ?? 0);
  all.delay = joined(list.map((f) => f.delay));
  all.ipdv = joined(list.map((f) => f.ipdv));
  if (all.bounds.length > 0) {
    const within = (q: number): number => Math.min(Math.max(quantile(all.bounds, all.counts, q), all.delay.min), all.delay.max);
    all.delay = { ...all.delay, p50: within(0.5), p90: within(0.9), p99: within(0.99) };
  }
  return all;
}

function joined(list: Spread[]): Spread {
  const all = { ...nothing };
  let most = 0;
  for (const s of list) {
    if (s.count === 0) continue;
    const before = all.count;
    all.count += s.count;
    all.mean = before === 0 ? s.mean : all.mean + ((s.mean - all.mean) * s.count) / all.count;
    all.min = before === 0 ? s.min : Math.min(all.min, s.min);
    all.max = before === 0 ? s.max : Math.max(all.max, s.max);
    if (s.count > most) {
      most = s.count;
      ({ p50: all.p50, p90: all.p90, p99: all.p99 } = s);
    }
  }
  return all;
}

/** The end of the bucket that begins at a bound: buckets keep the six leading binary digits. */
export function bucketEnd(bound: number): number {
  const size = Math.abs(bound);
  const width = size < 64 ? 1 : 2 ** (Math.floor(Math.log2(size)) - 5);
  // Below zero buckets mirror those above: a bound that is a power of two is the far end of narrower ones.
  return bound < 0 && size >= 64 && Number.isInteger(Math.log2(size)) ? bound + width / 2 : bound + width;
}

/** The value below which so much (0 to 1) of a histogram lies, even within a bucket. */
export function quantile(bounds: readonly number[], counts: readonly number[], q: number): number {
  const total = counts.reduce((a, b) => a + b, 0);
  let rest = q * total;
  for (let i = 0; i < bounds.length; i++) {
    const bound = bounds[i] ?? NaN;
    const count = counts[i] ?? 0;
    if (count > 0 && rest <= count) return bound + (bucketEnd(bound) - bound) * (rest / count);
    rest -= count;
  }
  return NaN;
}
