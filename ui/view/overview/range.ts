// The range of values of the colours of the matrix: robust against
// outliers and stable over time.

/** Values of the first and the last colour. */
export interface Span {
  low: number;
  high: number;
  /** Colours are logarithmic. */
  log: boolean;
}

const sampled = 2000; // values read; enough for two percentiles
const wide = 20; // high / low from which colours are logarithmic
const patience = 15; // updates until the range narrows
const steps = [1, 2, 5, 10];

/** The range of the middle 96 % of the values, ends rounded; undefined without values. */
export function spanOf(values: ArrayLike<number>, size = values.length): Span | undefined {
  const stride = Math.max(1, Math.ceil(size / sampled));
  const some = new Float64Array(Math.ceil(size / stride));
  let n = 0;
  for (let i = 0; i < size; i += stride) {
    const v = values[i] ?? NaN;
    if (Number.isFinite(v)) some[n++] = v;
  }
  if (n === 0) return undefined;
  const sorted = some.subarray(0, n).sort();
  const low = sorted[Math.floor((n - 1) * 0.02)] ?? 0;
  const high = sorted[Math.ceil((n - 1) * 0.98)] ?? 0;
  return rounded(low, high);
}

function rounded(low: number, high: number): Span {
  if (low <= 0) {
    const far = Math.max(Math.abs(low), Math.abs(high), 1);
    return { low: low === 0 ? 0 : -up(far), high: up(Math.max(high, 1)), log: false };
  }
  const span = { low: down(low), high: up(high) };
  return { ...span, log: span.high / span.low > wide };
}

function up(v: number): number {
  const power = 10 ** Math.floor(Math.log10(v));
  return (steps.find((s) => s * power >= v * 0.999999) ?? 10) * power;
}

function down(v: number): number {
  const power = 10 ** Math.floor(Math.log10(v));
  return (steps.findLast((s) => s * power <= v * 1.000001) ?? 1) * power;
}

/** Calm widens its range immediately and narrows it with a delay. */
export class Calm {
  span: Span | undefined;
  private smaller = 0;

  /** Takes the range that the current values need and returns the one to use. */
  next(want: Span | undefined): Span | undefined {
    if (!want) return this.span;
    const now = this.span;
    if (!now || want.low < now.low || want.high > now.high) {
      const low = now ? Math.min(now.low, want.low) : want.low;
      const high = now ? Math.max(now.high, want.high) : want.high;
      this.smaller = 0;
      return (this.span = { low, high, log: low > 0 && high / low > wide });
    }
    if (want.low === now.low && want.high === now.high) this.smaller = 0;
    else if (++this.smaller >= patience) {
      this.span = want;
      this.smaller = 0;
    }
    return this.span;
  }
}

/** Place of a value in a range, 0 to 1. */
export function placeIn(span: Span, value: number): number {
  const t = span.log
    ? Math.log(Math.max(value, Number.MIN_VALUE) / span.low) / Math.log(span.high / span.low)
    : (value - span.low) / (span.high - span.low || 1);
  return Math.max(0, Math.min(1, t));
}

/** The value at a place in a range. */
export function valueAt(span: Span, place: number): number {
  return span.log ? span.low * (span.high / span.low) ** place : span.low + (span.high - span.low) * place;
}
