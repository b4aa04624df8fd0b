// Paints very many lines: straight into pixels, column by column, and only the
// columns that have changed. Strokes of a canvas would take seconds.
import { Columns } from "./columns.ts";
import { channels } from "./colour.ts";
import type { Line, Range } from "./plot.ts";
import type { Scale } from "./scale.ts";
import type { View } from "./stage.ts";

/** Dense keeps the picture of the lines of one chart. */
export class Dense {
  columns: Columns | undefined;
  private canvas: HTMLCanvasElement | undefined;
  private image: ImageData | undefined;
  private words = new Uint32Array(0);
  private column = new Uint32Array(0);
  private key = "";

  /** update reads the values anew; of them the least and the largest are known then. */
  update(times: ArrayLike<number>, lines: Line[], range: Range, start: number, end: number, width: number, above: number): Columns {
    let { columns } = this;
    if (!columns || columns.width !== width || columns.lines !== lines.length || columns.above !== above) columns = this.columns = new Columns(width, lines.length, above);
    columns.update(times, lines, range, start, end);
    return columns;
  }

  /** paint draws what update has read. */
  paint(ctx: CanvasRenderingContext2D, view: View, lines: Line[], scale: Scale): void {
    const { columns } = this;
    if (!columns) return;
    const height = Math.round(view.height);
    const canvas = this.room(columns.width, height);
    const colours = lines.map((line) => packed(view.colour(line.colour)));
    const widths = lines.map((line) => Math.max(1, (line.width ?? 1.25) * view.ratio));
    const key = `${view.low} ${view.high} ${colours} ${widths}`;
    if (key !== this.key) columns.dirty.fill(1);
    this.key = key;
    this.repaint(columns, view, colours, widths, scale, height);
    // column c is in slot c modulo width: the picture is in two parts
    const cut = columns.slot(columns.first);
    const left = Math.round(view.left);
    const top = Math.round(view.top);
    const first = columns.width - cut;
    ctx.drawImage(canvas, cut, 0, first, height, left, top, first, height);
    if (cut > 0) ctx.drawImage(canvas, 0, 0, cut, height, left + first, top, cut, height);
  }

  private room(width: number, height: number): HTMLCanvasElement {
    const canvas = (this.canvas ??= document.createElement("canvas"));
    if (canvas.width !== width || canvas.height !== height || !this.image) {
      canvas.width = width;
      canvas.height = height;
      this.image = new ImageData(width, height);
      this.words = new Uint32Array(this.image.data.buffer);
      this.column = new Uint32Array(height);
      this.key = "";
    }
    return canvas;
  }

  private repaint(columns: Columns, view: View, colours: number[], widths: number[], scale: Scale, height: number): void {
    const { dirty, width } = columns;
    const ctx = this.canvas?.getContext("2d", { willReadFrequently: true });
    if (!ctx || !this.image) return;
    const perHeight = height / (view.high - view.low);
    for (let slot = 0; slot < width; slot++) {
      if (!dirty[slot]) continue;
      const from = slot;
      while (slot < width && dirty[slot]) this.paintColumn(columns, slot++, view.high, perHeight, colours, widths, scale);
      ctx.putImageData(this.image, 0, 0, from, 0, slot - from, height);
    }
    dirty.fill(0);
  }

  private paintColumn(columns: Columns, slot: number, top: number, perHeight: number, colours: number[], widths: number[], scale: Scale): void {
    const { column, words } = this;
    const { low, high, width, lines } = columns;
    column.fill(0);
    for (let k = 0, place = slot; k < lines; k++, place += width) {
      const a = high[place] ?? 0;
      if (a === -Infinity) continue;
      const half = (widths[k] ?? 1) / 2;
      const from = (top - scale.height(a)) * perHeight - half;
      const to = (top - scale.height(low[place] ?? 0)) * perHeight + half;
      run(column, from, to, colours[k] ?? 0);
    }
    for (let y = 0, at = slot; y < column.length; y++, at += width) words[at] = column[y] ?? 0;
  }
}

// A run of pixels of one column; its ends are as strong as it covers them.
function run(column: Uint32Array, from: number, to: number, colour: number): void {
  const n = column.length;
  if (!(to > 0 && from < n)) return;
  const first = Math.max(0, Math.floor(from));
  const last = Math.min(n - 1, Math.ceil(to) - 1);
  const solid = (colour | 0xff000000) >>> 0;
  for (let y = first; y <= last; y++) {
    const cover = Math.min(to, y + 1) - Math.max(from, y);
    column[y] = cover > 0.99 ? solid : over(column[y] ?? 0, colour, cover);
  }
}

// A colour that covers a part of a pixel, over what is there.
function over(under: number, colour: number, cover: number): number {
  const a = (under >>> 24) / 255;
  const alpha = cover + a * (1 - cover);
  const t = alpha > 0 ? cover / alpha : 0;
  const r = (under & 255) + ((colour & 255) - (under & 255)) * t;
  const g = ((under >> 8) & 255) + (((colour >> 8) & 255) - ((under >> 8) & 255)) * t;
  const b = ((under >> 16) & 255) + (((colour >> 16) & 255) - ((under >> 16) & 255)) * t;
  return ((Math.round(alpha * 255) << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

// A colour as the words of ImageData have it, where memory is little-endian, as everywhere that browsers run.
function packed(colour: string): number {
  const [r, g, b] = channels(colour);
  return (b << 16) | (g << 8) | r;
}
