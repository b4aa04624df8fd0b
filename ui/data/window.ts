// What was measured in a window of time, as plain numbers.
import type { CorrectedDelay, Distribution, Window as WindowMessage } from "../gen/flow_pb.ts";
import { merge, quantile, type Histogram } from "./histogram.ts";

/** Distribution of a time, ns; NaN where nothing was measured. */
export interface Spread {
  count: number;
  min: number;
  mean: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
  /** Empty where the server was not asked for it. */
  histogram: Histogram;
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
  /** Packets of flows with sparse marks, among which neither duplicates nor reordering are detected. */
  unchecked: number;
  delay: Spread;
  ipdv: Spread;
  /** Bound of the error of both clocks together, ns: the largest of the rows; NaN: one does not know it. */
  clockError: number;
  /** The delay without the estimated clock offset, if it was requested and is known. */
  corrected?: Corrected;
}

/** A delay without the estimated clock offset, and what was estimated; ns. */
export interface Corrected {
  delay: Spread;
  /** Clock of the destination minus clock of the source in the middle of the window. */
  offset: number;
  /** Bound of the error of the corrected delays; NaN: only one direction was measured. */
  bound: number;
  /** ns per second. */
  skew: number;
  skewBound: number;
  /** By so much single delays may differ from what the correction makes of them. */
  drift: number;
  /** Resolution of the quantiles. */
  resolution: number;
  /** When either clock was last set, or rows began; ms since 1970. */
  segment: number;
}

/** No buckets. */
export const noHistogram: Histogram = { bounds: [], counts: [], offsets: [] };

const nothing: Spread = { count: 0, min: NaN, mean: NaN, p50: NaN, p90: NaN, p99: NaN, max: NaN, histogram: noHistogram };

function spread(d: Distribution | undefined): Spread {
  if (!d || d.count === 0n) return nothing;
  const h = d.histogram;
  const histogram = h ? { bounds: h.boundsNs, counts: h.counts, offsets: h.offsetsNs.length > 0 ? h.offsetsNs : undefined } : noHistogram;
  return { count: Number(d.count), min: d.minNs, mean: d.meanNs, p50: d.p50Ns, p90: d.p90Ns, p99: d.p99Ns, max: d.maxNs, histogram };
}

function correctedOf(c: CorrectedDelay | undefined): Corrected | undefined {
  if (!c) return undefined;
  return {
    delay: spread(c.delay), offset: c.offsetNs, bound: c.boundNs, skew: c.skewPpb, skewBound: c.skewBoundPpb,
    drift: c.driftNs, resolution: c.resolutionNs, segment: Number(c.segmentMs),
  };
}

/** Whether delays are shown as measured, or without the estimated clock offset. */
export type Clock = "measured" | "corrected";

/** The figures with the delays that are shown; without a correction, none. */
export function shownBy(clock: Clock, f: Figures): Figures {
  if (clock === "measured") return f;
  return { ...f, delay: f.corrected?.delay ?? nothing, clockError: f.corrected?.bound ?? NaN };
}

/** Figures of a message. */
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
    unchecked: Number(w.unchecked),
    delay: spread(w.delay),
    ipdv: spread(w.ipdv),
    clockError: w.clockErrorNs,
    corrected: correctedOf(w.corrected),
  };
}

/** Lost of expected packets, 0 to 1; NaN where none was expected. */
export const lossIn = (f: Figures): number => (f.expected > 0 ? f.lost / f.expected : NaN);

const rowsMs = 1500; // after which the rows of a window have arrived
const leastMs = 5000; // that a growing window must have lasted before a rate means something

/**
 * How long of a window has been measured at a time, ms: its step, less while it grows, and NaN when that
 * is too short for a rate. Windows of a second are whole: each is one row.
 */
export function measuredIn(f: Figures, step: number, now: number): number {
  const length = now - rowsMs - f.start;
  if (step <= 1000 || !(length < step)) return step;
  return length < leastMs ? NaN : length;
}

/** Bits per second in a window of that many ms. */
export const rateIn = (f: Figures, step: number): number => (f.bytes * 8000) / step;

/** Packets per second in a window of that many ms. */
export const packetsIn = (f: Figures, step: number): number => (f.packets * 1000) / step;

const counters = ["packets", "bytes", "expected", "lost", "duplicated", "reordered", "late", "unchecked"] as const;

/** Sums windows; quantiles are computed from the merged histograms. */
export function sum(list: readonly Figures[]): Figures | undefined {
  const [first, ...others] = list;
  if (!first) return undefined;
  const errors = list.filter((f) => f.delay.count > 0).map((f) => f.clockError);
  const clockError = errors.length > 0 ? Math.max(...errors) : NaN; // NaN stays
  const all: Figures = { ...first, delay: joined(list.map((f) => f.delay)), ipdv: joined(list.map((f) => f.ipdv)), clockError, corrected: undefined };
  for (const f of others) for (const counter of counters) all[counter] += f[counter];
  return all;
}

function joined(spreads: readonly Spread[]): Spread {
  const list = spreads.filter((s) => s.count > 0);
  const [first] = list;
  if (!first || list.length === 1) return first ?? nothing;
  const count = list.reduce((n, s) => n + s.count, 0);
  const histogram = merge(list.map((s) => s.histogram));
  const [min, max] = [Math.min(...list.map((s) => s.min)), Math.max(...list.map((s) => s.max))];
  const at = (q: number): number => quantile(histogram, q, min, max);
  return { count, min, mean: list.reduce((n, s) => n + s.mean * s.count, 0) / count, p50: at(0.5), p90: at(0.9), p99: at(0.99), max, histogram };
}
