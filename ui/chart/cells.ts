// Paints histograms over time: each cell is a window, or several where there is no
// room for one, and a row of values.
import type { Histogram } from "../data/histogram.ts";
import { regroup, total, upperAt, type Rows } from "./bucket.ts";
import { channels, sequential } from "./colour.ts";
import { axisEnds, within } from "./ends.ts";
import type { HeatMapProps } from "./plot.ts";
import { bothSides, linear, logarithmic, roundUp, type Scale } from "./scale.ts";
import type { View } from "./stage.ts";

const rowHeight = 4; // pixels of the page

interface Grouped {
  sum: number;
  rows: Float64Array;
}

/** The value axis of histograms: linear if that is readable, else logarithmic. */
export function axisOf(buckets: readonly Histogram[]): { scale: Scale; ends: [number, number] } {
  const held = buckets.filter((h) => h.bounds.length > 0);
  const low = Math.min(...held.map((h) => h.bounds[0] ?? Infinity));
  const high = Math.max(...held.map((h) => upperAt(h, h.bounds.length - 1)));
  if (low > high) return { scale: linear, ends: [0, 1] };
  if (low > 0 && high > low * 4) return { scale: logarithmic, ends: axisEnds(low, high, "log") };
  const near = roundUp(Math.max(32, Math.min(-low, high)));
  if (low <= 0 && Math.max(-low, high) > near * 20) {
    return { scale: bothSides(near), ends: [-low > near ? -roundUp(-low) : low < 0 ? -near : 0, high > near ? roundUp(high) : near] };
  }
  return { scale: linear, ends: axisEnds(low, high, "fit") };
}

/** CellsPainter paints the cells of a heat map. */
export class CellsPainter {
  private canvas: HTMLCanvasElement | undefined;
  // Rows of complete windows are cached until the axis changes.
  private grouped = new WeakMap<object, Grouped>();
  private key = "";
  private palette = new Uint32Array(0);
  private dark: boolean | undefined;

  /** Paints the cells of a heat map in the colours of a theme. */
  paint(ctx: CanvasRenderingContext2D, view: View, { times, buckets, step }: HeatMapProps, dark: boolean): void {
    const [start, end] = within(times, view.range);
    if (start >= end || !(step > 0)) return;
    const count = Math.max(1, Math.round(view.height / view.ratio / rowHeight));
    const rows: Rows = { count, place: (value) => ((view.top + view.height - view.y(value)) / view.height) * count };
    // windows per column, so that no cell is narrower than a pixel
    const together = Math.max(1, Math.ceil((step / (view.range.to - view.range.from)) ** -1 / view.width));
    const wide = together * step;
    const first = Math.floor((times[start] ?? 0) / wide);
    const last = Math.floor((times[end - 1] ?? 0) / wide);
    const image = new ImageData(last - first + 1, rows.count);
    this.fill(new Uint32Array(image.data.buffer), image.width, buckets, times, start, end, first, wide, rows, dark);
    const canvas = (this.canvas ??= document.createElement("canvas"));
    canvas.width = image.width;
    canvas.height = image.height;
    canvas.getContext("2d")?.putImageData(image, 0, 0);
    ctx.imageSmoothingEnabled = false;
    const left = view.x(first * wide);
    ctx.drawImage(canvas, left, view.top, view.x((last + 1) * wide) - left, view.height);
  }

  private fill(words: Uint32Array, width: number, buckets: readonly Histogram[], times: ArrayLike<number>, start: number, end: number, first: number, wide: number, rows: Rows, dark: boolean): void {
    const key = [rows.count, ...[0, 1e3, 1e6].map(rows.place)].join(" ");
    if (key !== this.key) this.grouped = new WeakMap();
    this.key = key;
    const palette = this.colours(dark);
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

  private colours(dark: boolean): Uint32Array {
    if (this.dark !== dark) {
      this.dark = dark;
      this.palette = Uint32Array.from({ length: 256 }, (_, i) => {
        const [r, g, b] = channels(sequential(i / 255, dark));
        return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
      });
    }
    return this.palette;
  }
}

/** Place of a share on the colour scale, 0 to 1, so that a few packets of thousands remain visible. */
export const shade = (share: number): number => Math.min(1, share ** 0.4);
