// How far each line reaches up and down within each column of pixels: all that a
// picture of many points needs. Columns lie on a grid of absolute time, so that
// those that are finished stay when the range slides on.
import type { Line, Range } from "./plot.ts";
import { indexAt } from "./thin.ts";

/** What was read last: given arrays are never changed, so they need not be copied. */
interface Known {
  times: ArrayLike<number>;
  values: ArrayLike<number>[];
  start: number;
  end: number;
}

/** Columns of the lines of one chart. A column is found by its number modulo the width. */
export class Columns {
  /** Number of the first column that is shown. */
  first = 0;
  /** ms that a column is wide. */
  wide = 0;
  /** Of line k in column c at [k * width + c modulo width]; where nothing is, low is Infinity. */
  low = new Float64Array(0);
  high = new Float64Array(0);
  /** 1: differs from what was there when `dirty` was last cleared. */
  dirty = new Uint8Array(0);
  /** Least and largest of all. */
  least = Infinity;
  most = -Infinity;
  private readonly leastOf: Float64Array;
  private readonly mostOf: Float64Array;
  private known: Known | undefined;
  private from = 0; // first column to write
  private column = new Int32Array(0);
  private share = new Float64Array(0);
  private slope = new Float64Array(0);

  /** Values up to `above` do not count as the least: a logarithm has no place for them. */
  constructor(readonly width: number, readonly lines: number, readonly above = -Infinity) {
    this.low = new Float64Array(width * lines).fill(Infinity);
    this.high = new Float64Array(width * lines).fill(-Infinity);
    this.dirty = new Uint8Array(width).fill(1);
    this.leastOf = new Float64Array(width).fill(Infinity);
    this.mostOf = new Float64Array(width).fill(-Infinity);
  }

  /** update reads times[start..end); of values that it has read before only those that differ. */
  update(times: ArrayLike<number>, lines: Line[], range: Range, start: number, end: number): void {
    const wide = (range.to - range.from) / this.width;
    const same = Math.abs(wide - this.wide) <= wide * 1e-9;
    if (!same) this.wide = wide; // else the old, so that the grid stays to the last digit
    const first = Math.ceil(range.from / this.wide - 1e-6); // not rounded: the newest value has to be within
    const known = this.known;
    const on = same && known && first >= this.first && first < this.first + this.width ? known : undefined;
    if (!on) this.dirty.fill(1);
    else for (let c = this.first + this.width; c < first + this.width; c++) this.dirty[this.slot(c)] = 1;
    const right = this.first + this.width - 1 - first; // the last column that was shown
    this.first = first;
    this.place(times, start, end);
    const hold = end - start > 1 ? Math.round(((times[end - 1] ?? 0) - (times[end - 2] ?? 0)) / this.wide) : 0;
    const common = on ? commonTimes(on, times, start, end) : undefined;
    lines.forEach((line, k) => {
      this.from = common && on ? this.firstChange(line, on.values[k] ?? [], common, start, right) : 0;
      this.follow(line, k, this.before(start, end), end, start, hold);
    });
    this.known = { times, values: lines.map((line) => line.values), start, end };
    this.range();
  }

  // The column from which a line has to be followed anew.
  private firstChange(line: Line, old: ArrayLike<number>, common: { shift: number; end: number }, start: number, right: number): number {
    const i = firstDifference(line.values, old, start, common.end, common.shift);
    return Math.min(right, i > start ? this.column[i - 1 - start] ?? 0 : 0);
  }

  // Index of the last time before column `from`, whence the line enters it.
  private before(start: number, end: number): number {
    let low = 0;
    let high = end - start;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.column[middle] ?? 0) < this.from) low = middle + 1;
      else high = middle;
    }
    return start + Math.max(0, low - 1);
  }

  private range(): void {
    const { dirty, low, high, width, lines, leastOf, mostOf } = this;
    this.least = Infinity;
    this.most = -Infinity;
    for (let slot = 0; slot < width; slot++) {
      if (dirty[slot]) {
        let least = Infinity, most = -Infinity;
        for (let k = 0, place = slot; k < lines; k++, place += width) {
          const l = low[place] ?? Infinity;
          const h = high[place] ?? -Infinity;
          if (l < least && l > this.above) least = l;
          if (h > most) most = h;
        }
        leastOf[slot] = least;
        mostOf[slot] = most;
      }
      this.least = Math.min(this.least, leastOf[slot] ?? Infinity);
      this.most = Math.max(this.most, mostOf[slot] ?? -Infinity);
    }
  }

  /** slot is where a column is kept. */
  slot(column: number): number {
    return ((column % this.width) + this.width) % this.width;
  }

  // For each time its column, from the first, and where on the way to it from the
  // time before the edge of its column lies, and which share of the way a column is:
  // the same for all lines.
  private place(times: ArrayLike<number>, start: number, end: number): void {
    const n = end - start;
    if (this.column.length < n) {
      this.column = new Int32Array(n + 64);
      this.share = new Float64Array(n + 64);
      this.slope = new Float64Array(n + 64);
    }
    let before = 0;
    for (let i = 0; i < n; i++) {
      const t = times[start + i] ?? 0;
      const c = Math.floor(t / this.wide);
      this.column[i] = c - this.first;
      this.share[i] = i > 0 && t > before ? (c * this.wide - before) / (t - before) : 0;
      this.slope[i] = i > 0 && t > before ? this.wide / (t - before) : 0;
      before = t;
    }
  }

  // Column `at` is being gathered; those before it are written.
  private follow(line: Line, k: number, start: number, end: number, origin: number, hold: number): void {
    const { column, share, slope } = this;
    const skipped = start - origin;
    const { values } = line;
    const steps = line.steps === true;
    const n = end - start;
    let at = n > 0 ? column[skipped] ?? 0 : 0;
    let low = Infinity, high = -Infinity, before = NaN;
    this.fill(k, 0, at, Infinity, -Infinity);
    for (let i = 0; i < n; i++) {
      const v = values[start + i] ?? NaN;
      const c = column[skipped + i] ?? 0;
      if (v !== v) {
        const until = steps && before === before ? Math.min(at + hold, c) : at;
        if (until > at) {
          this.write(k, at, low, high);
          this.fill(k, at + 1, until, before, before);
          at = until;
          low = Infinity;
          high = -Infinity;
        }
        before = NaN;
        continue;
      }
      if (c !== at) {
        if (before === before) {
          // on its way the line crosses the edges of columns; a step crosses them at its own height
          const edge = steps ? before : before + (v - before) * (share[skipped + i] ?? 0);
          if (c === at + 1) this.write(k, at, edge < low ? edge : low, edge > high ? edge : high);
          else this.cross(k, at, c, low, high, edge, steps ? 0 : (v - before) * (slope[skipped + i] ?? 0));
          low = high = edge;
        } else {
          this.write(k, at, low, high);
          this.fill(k, at + 1, c, Infinity, -Infinity);
          low = Infinity;
          high = -Infinity;
        }
        at = c;
      }
      if (v < low) low = v;
      if (v > high) high = v;
      before = v;
    }
    this.write(k, at, low, high);
    const until = steps && before === before ? at + hold : at + 1;
    this.fill(k, at + 1, until, before, before);
    this.fill(k, Math.max(at + 1, until), this.width, Infinity, -Infinity);
  }

  private fill(k: number, from: number, to: number, low: number, high: number): void {
    for (let c = Math.max(this.from, from); c < to && c < this.width; c++) this.write(k, c, low, high);
  }

  // From column a to c without a value between; the line enters c at the height
  // `edge` and rises by `slope` in each column.
  private cross(k: number, a: number, c: number, low: number, high: number, edge: number, slope: number): void {
    let v = edge - slope * (c - 1 - a);
    this.write(k, a, Math.min(low, v), Math.max(high, v));
    for (let q = a + 1; q < c; q++) {
      const next = q === c - 1 ? edge : v + slope;
      this.write(k, q, Math.min(v, next), Math.max(v, next));
      v = next;
    }
  }

  private write(k: number, c: number, low: number, high: number): void {
    if (c < this.from || c >= this.width) return;
    let slot = (this.first + c) % this.width;
    if (slot < 0) slot += this.width;
    const place = k * this.width + slot;
    if (this.low[place] === low && this.high[place] === high) return;
    this.low[place] = low;
    this.high[place] = high;
    this.dirty[slot] = 1;
  }
}

// The stretch of times from start that was known before, and by how much its indices have shifted since.
function commonTimes(known: Known, times: ArrayLike<number>, start: number, end: number): { shift: number; end: number } | undefined {
  const shift = indexAt(known.times, times[start] ?? 0) - start;
  if (known.times[start + shift] !== times[start] || start + shift < known.start) return undefined;
  let i = start;
  while (i < end && i + shift < known.end && times[i] === known.times[i + shift]) i++;
  return { shift, end: i };
}

/** First index from start at which values differ from old values, whose indices are `shift` more; else end. */
export function firstDifference(values: ArrayLike<number>, old: ArrayLike<number>, start: number, end: number, shift: number): number {
  if (values === old && shift === 0) return end;
  for (let i = start; i < end; i++) {
    const a = values[i];
    const b = old[i + shift];
    if (a !== b && (a === a || b === b)) return i; // NaN is not even NaN
  }
  return end;
}
