// Windows as columns on an even grid of times, for line charts.
import { lossIn, measuredIn, packetsIn, rateIn, type Figures } from "./window.ts";

/** Maximum number of times in a grid. */
const most = 5000;

/** Starts of all windows that overlap a range, with one more on either side. */
export function gridOf(from: number, to: number, step: number): number[] {
  if (!(step > 0) || (to - from) / step > most) return [];
  const first = Math.floor(from / step) * step - step;
  const times: number[] = [];
  for (let t = first; t <= to; t += step) times.push(t);
  return times;
}

export interface Columns {
  p50: Float64Array;
  p90: Float64Array;
  p99: Float64Array;
  min: Float64Array;
  max: Float64Array;
  /** The median minus and plus the clock error. */
  low: Float64Array;
  high: Float64Array;
  ipdv: Float64Array;
  loss: Float64Array;
  rate: Float64Array;
  packets: Float64Array;
}

const pick: Record<keyof Columns, (f: Figures, length: number) => number> = {
  p50: (f) => f.delay.p50,
  p90: (f) => f.delay.p90,
  p99: (f) => f.delay.p99,
  min: (f) => f.delay.min,
  max: (f) => f.delay.max,
  low: (f) => f.delay.p50 - f.clockError,
  high: (f) => f.delay.p50 + f.clockError,
  ipdv: (f) => f.ipdv.p90,
  loss: lossIn,
  rate: rateIn,
  packets: packetsIn,
};

/** Columns of windows on a grid; NaN where there is no window. now as in measuredIn. */
export function columnsOf(windows: readonly Figures[], times: readonly number[], step: number, now = Infinity): Columns {
  const first = times[0] ?? 0;
  const empty = (): Float64Array => new Float64Array(times.length).fill(NaN);
  const all: Columns = {
    p50: empty(), p90: empty(), p99: empty(), min: empty(), max: empty(), low: empty(), high: empty(),
    ipdv: empty(), loss: empty(), rate: empty(), packets: empty(),
  };
  const names = Object.keys(pick) as (keyof Columns)[];
  for (const f of windows) {
    const at = Math.round((f.start - first) / step);
    if (at < 0 || at >= times.length) continue;
    const length = measuredIn(f, step, now);
    for (const name of names) all[name][at] = pick[name](f, length);
  }
  return all;
}
