// Value axes: how values are spread, and ticks.

/** Scale spreads values over an axis. */
export interface Scale {
  /** As in uPlot: 1 is linear, 3 logarithmic, 4 logarithmic away from zero on both sides. */
  distr: 1 | 3 | 4;
  /** Distance from zero up to which 4 is linear. */
  asinh?: number;
  /** At most `most` tick values between two. */
  ticks(low: number, high: number, most: number): number[];
}

/** The smallest of 1, 2, 5 times a power of ten that is at least a value. */
export function roundUp(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  const lead = step / power;
  return (lead <= 1.0000001 ? 1 : lead <= 2.0000001 ? 2 : lead <= 5.0000001 ? 5 : 10) * power;
}

/** Multiples of a round step between two values. */
export function linearTicks(low: number, high: number, most: number): number[] {
  if (!(high > low) || most < 1) return [low];
  const step = roundUp((high - low) / most);
  const ticks: number[] = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(cleaned(k * step));
  return ticks;
}

// 3 * 0.1 is not 0.3: rounding errors are cut off.
const cleaned = (v: number): number => (v === 0 ? 0 : Number(v.toPrecision(12)));

/** Powers of ten, with 2 and 5 times these if there is room; linear ticks within one decade. */
export function logTicks(low: number, high: number, most: number): number[] {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  for (const leads of [[1, 2, 5], [1, 3], [1]]) {
    const ticks: number[] = [];
    for (let p = first; p <= last; p++) {
      for (const lead of leads) {
        const v = cleaned(lead * 10 ** p);
        if (v >= low * 0.999999 && v <= high * 1.000001) ticks.push(v);
      }
    }
    if (ticks.length < 3 && leads.length === 3) return linearTicks(low, high, most);
    if (ticks.length <= most) return ticks;
  }
  const every = Math.max(1, Math.ceil((last - first + 1) / Math.max(1, most)));
  const ticks: number[] = [];
  for (let p = Math.ceil(Math.log10(low)); p <= Math.log10(high) + 1e-9; p += every) ticks.push(10 ** p);
  return ticks;
}

export const linear: Scale = { distr: 1, ticks: linearTicks };

/** Bytes, with round figures in KiB, MiB and so on. */
export const binary: Scale = {
  distr: 1,
  ticks(low, high, most) {
    const unit = 1024 ** Math.max(0, Math.floor(Math.log(high) / Math.log(1024)));
    return linearTicks(low / unit, high / unit, most).map((v) => v * unit);
  },
};

export const logarithmic: Scale = { distr: 3, ticks: logTicks };

/** Logarithmic away from zero on both sides, linear between -near and near. */
export const bothSides = (near: number): Scale => ({
  distr: 4, asinh: near,
  ticks(low, high, most) {
    const up = high > near ? logTicks(Math.max(near, low), high, Math.ceil(most / 2)) : [];
    const down = low < -near ? logTicks(Math.max(near, -high), -low, Math.ceil(most / 2)) : [];
    return [...down.reverse().map((v) => -v), ...(low <= 0 && high >= 0 ? [0] : []), ...up];
  },
});
