// Paints very many lines: straight into pixels, column by column, and only the
// columns that have changed. Strokes of a canvas would take seconds.
import { Columns } from "./columns.ts";
import { channels } from "./colour.ts";
import type { Line, Range } from "./plot.ts";
import type { Scale } from "./scale.ts";
import type { View } from "./stage.ts";

/** ms of a frame that a new axis may take. */
const slice = 5;

interface Pens {
  colours: number[];
  widths: number[];
}

/** Dense keeps the picture of the lines of one chart. */
export class Dense {
  columns: Columns | undefined;
  private canvas: HTMLCanvasElement | undefined;
  private image: ImageData | undefined;
  private words = new Uint32Array(0);
  private column = new Uint32Array(0);
  private look = "";
  private ends: [number, number] = [0, 0];
  // While a new axis is painted: the picture of the old, to be stretched to the new.
  private ghost: { canvas: HTMLCanvasElement; ends: [number, number] } | undefined;

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
    const look = lines.map((line) => `${view.colour(line.colour)} ${line.width}`).join();
    if (look !== this.look || view.low !== this.ends[0] || view.high !== this.ends[1]) {
      if (look !== this.look || !view.again) this.ghost = undefined;
      else this.ghost ??= { canvas: copy(canvas), ends: this.ends };
      columns.dirty.fill(1);
    }
    this.look = look;
    this.ends = [view.low, view.high];
    const pens = { colours: lines.map((line) => packed(view.colour(line.colour))), widths: lines.map((line) => Math.max(1, (line.width ?? 1.25) * view.ratio)) };
    const done = this.repaint(columns, view, pens, scale, height);
    this.show(ctx, view, canvas, done, columns.first + columns.width, this.ends);
    if (this.ghost && done > columns.first) {
      this.show(ctx, view, this.ghost.canvas, columns.first, done, this.ghost.ends);
      view.again?.();
    } else {
      this.ghost = undefined;
    }
  }

  // Columns [from, to) of a picture that was painted for these ends of the axis.
  private show(ctx: CanvasRenderingContext2D, view: View, canvas: HTMLCanvasElement, from: number, to: number, ends: [number, number]): void {
    const { columns } = this;
    if (!columns) return;
    const perHeight = Math.round(view.height) / (view.high - view.low);
    const top = Math.round(view.top) + (view.high - ends[1]) * perHeight;
    const height = (ends[1] - ends[0]) * perHeight;
    for (let c = from; c < to; ) {
      // column c is in slot c modulo width: the picture is in two parts
      const slot = columns.slot(c);
      const wide = Math.min(to - c, columns.width - slot);
      ctx.drawImage(canvas, slot, 0, wide, canvas.height, Math.round(view.left) + c - columns.first, top, wide, height);
      c += wide;
    }
  }

  private room(width: number, height: number): HTMLCanvasElement {
    const canvas = (this.canvas ??= document.createElement("canvas"));
    if (canvas.width !== width || canvas.height !== height || !this.image) {
      canvas.width = width;
      canvas.height = height;
      this.image = new ImageData(width, height);
      this.words = new Uint32Array(this.image.data.buffer);
      this.column = new Uint32Array(height);
      this.look = "";
    }
    return canvas;
  }

  // From the newest column back; returns the first that is done. With a ghost to
  // show for the others it stops in time, and goes on in the next frame.
  private repaint(columns: Columns, view: View, pens: Pens, scale: Scale, height: number): number {
    const { dirty, first, width } = columns;
    const ctx = this.canvas?.getContext("2d", { willReadFrequently: true });
    if (!ctx || !this.image) return first;
    const perHeight = height / (view.high - view.low);
    const until = this.ghost ? performance.now() + slice : Infinity;
    let run = 0; // columns that are painted but not yet put
    let c = first + width;
    while (c > first) {
      const slot = columns.slot(c - 1);
      const changed = dirty[slot] === 1;
      if (run > 0 && (!changed || slot === width - 1)) {
        this.put(ctx, columns.slot(c), run, height);
        run = 0;
      }
      if (changed) {
        if (c % 16 === 0 && performance.now() > until) break;
        this.paintColumn(columns, slot, view.high, perHeight, pens, scale);
        dirty[slot] = 0;
        run++;
      }
      c--;
    }
    if (run > 0) this.put(ctx, columns.slot(c), run, height);
    return c;
  }

  private put(ctx: CanvasRenderingContext2D, slot: number, wide: number, height: number): void {
    if (this.image) ctx.putImageData(this.image, 0, 0, slot, 0, wide, height);
  }

  private paintColumn(columns: Columns, slot: number, top: number, perHeight: number, { colours, widths }: Pens, scale: Scale): void {
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

function copy(canvas: HTMLCanvasElement): HTMLCanvasElement {
  const made = document.createElement("canvas");
  made.width = canvas.width;
  made.height = canvas.height;
  made.getContext("2d")?.drawImage(canvas, 0, 0);
  return made;
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
