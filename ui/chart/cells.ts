// Paints histograms over time: each cell is a window, or several where there is no
// room for one, and a row of values.
import type { Histogram } from "../data/histogram.ts";
import { regroup, total, upperAt, type Rows } from "./bucket.ts";
import { channels, sequential } from "./colour.ts";
import { axisEnds, within } from "./ends.ts";
import type { HeatMapProps, Range } from "./plot.ts";
import { bothSides, linear, logarithmic, roundUp, type Scale } from "./scale.ts";
import type { Painter, View } from "./stage.ts";

type CellsProps = Pick<HeatMapProps, "times" | "buckets" | "step"> & { dark: boolean };

const rowHeight = 4; // pixels of the page

interface Grouped {
  sum: number;
  rows: Float64Array;
}

/** CellsPainter paints the cells of a heat map. */
export class CellsPainter implements Painter {
  scale: Scale = linear;
  private near = 0;
  private canvas: HTMLCanvasElement | undefined;
  // Rows of complete windows are cached until the axis changes.
  private grouped = new WeakMap<object, Grouped>();
  private key = "";
  private palette = new Uint32Array(0);
  private dark: boolean | undefined;

  constructor(private props: CellsProps) {}

  set(props: CellsProps): void {
    this.props = props;
  }

  ends(range: Range): [number, number] {
    const { times, buckets } = this.props;
    const [start, end] = within(times, range);
    let low = Infinity;
    let high = -Infinity;
    for (let i = start; i < end; i++) {
      const histogram = buckets[i];
      const n = histogram?.bounds.length ?? 0;
      if (!histogram || n === 0) continue;
      low = Math.min(low, histogram.bounds[0] ?? Infinity);
      high = Math.max(high, upperAt(histogram, n - 1));
    }
    return this.choose(low, high);
  }

  // Linear if that is readable, else logarithmic.
  private choose(low: number, high: number): [number, number] {
    if (low > high) {
      this.scale = linear;
      return [0, 1];
    }
    if (low > 0 && high > low * 4) {
      this.scale = logarithmic;
      return axisEnds(low, high, "log");
    }
    const near = roundUp(Math.max(32, Math.min(-low, high)));
    if (low <= 0 && Math.max(-low, high) > near * 20) {
      if (this.near !== near) this.scale = bothSides(near);
      this.near = near;
      const up = high > near ? roundUp(high) : near;
      return [-low > near ? -roundUp(-low) : low < 0 ? -near : 0, up];
    }
    this.near = 0;
    this.scale = linear;
    return axisEnds(low, high, "fit");
  }

  paint(ctx: CanvasRenderingContext2D, view: View): void {
    const { times, buckets, step } = this.props;
    const [start, end] = within(times, view.range);
    if (start >= end || !(step > 0)) return;
    const rows: Rows = { height: this.scale.height, low: view.low, high: view.high, count: Math.max(1, Math.round(view.height / view.ratio / rowHeight)) };
    // windows per column, so that no cell is narrower than a pixel
    const together = Math.max(1, Math.ceil((step / (view.range.to - view.range.from)) ** -1 / view.width));
    const wide = together * step;
    const first = Math.floor((times[start] ?? 0) / wide);
    const last = Math.floor((times[end - 1] ?? 0) / wide);
    const image = new ImageData(last - first + 1, rows.count);
    this.fill(new Uint32Array(image.data.buffer), image.width, buckets, times, start, end, first, wide, rows);
    const canvas = (this.canvas ??= document.createElement("canvas"));
    canvas.width = image.width;
    canvas.height = image.height;
    canvas.getContext("2d")?.putImageData(image, 0, 0);
    ctx.imageSmoothingEnabled = false;
    const left = view.x(first * wide);
    ctx.drawImage(canvas, left, view.top, view.x((last + 1) * wide) - left, view.height);
  }

  private fill(words: Uint32Array, width: number, buckets: readonly Histogram[], times: ArrayLike<number>, start: number, end: number, first: number, wide: number, rows: Rows): void {
    const key = `${rows.low} ${rows.high} ${rows.count} ${this.near} ${this.scale === logarithmic}`;
    if (key !== this.key) this.grouped = new WeakMap();
    this.key = key;
    const palette = this.colours();
    const sums = new Float64Array(rows.count);
    for (let i = start; i < end; ) {
      const column = Math.floor((times[i] ?? 0) / wide);
      let sum = 0;
      sums.fill(0);
      for (; i < end && Math.floor((times[i] ?? 0) / wide) === column; i++) {
        const histogram = buckets[i];
        if (!histogram || histogram.counts.length === 0) continue;
        const one = this.group(histogram, rows);
        sum += one.sum;
        for (let r = 0; r < rows.count; r++) sums[r] = (sums[r] ?? 0) + (one.rows[r] ?? 0);
      }
      if (sum <= 0) continue;
      for (let r = 0; r < rows.count; r++) {
        const share = (sums[r] ?? 0) / sum;
        if (share > 1e-9) words[(rows.count - 1 - r) * width + column - first] = palette[Math.round(255 * shade(share))] ?? 0;
      }
    }
  }

  private group(histogram: Histogram, rows: Rows): Grouped {
    let one = this.grouped.get(histogram.counts);
    if (!one) this.grouped.set(histogram.counts, (one = { sum: total(histogram), rows: regroup(histogram, rows) }));
    return one;
  }

  private colours(): Uint32Array {
    if (this.dark !== this.props.dark || this.palette.length === 0) {
      this.dark = this.props.dark;
      this.palette = Uint32Array.from({ length: 256 }, (_, i) => {
        const [r, g, b] = channels(sequential(i / 255, this.props.dark));
        return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
      });
    }
    return this.palette;
  }
}

/** Place of a share on the colour scale, 0 to 1, so that a few packets of thousands remain visible. */
export const shade = (share: number): number => Math.min(1, share ** 0.4);
