// Painting of the visible part of a matrix with many cells on a canvas.
import { channels, inkOn } from "./colour.ts";

/** The look of a kind of cell. */
export interface Tone {
  colour: string;
  /** A dot in the middle, for colour-blind users. */
  dot?: boolean;
}

/** The contents of a matrix, by row and column. */
export interface Cells {
  rows: string[];
  columns: string[];
  /** Group of each row and column, if grouped; lines separate groups. */
  rowGroups?: string[];
  columnGroups?: string[];
  palette: Tone[];
  /** Index of a cell's tone in the palette. */
  tone(row: number, column: number): number;
  /** Text and sparkline of large cells; without these, cells are colours only. */
  figure?(row: number, column: number): string;
  /** Writes the history of a cell's figure; false: none. */
  course?(row: number, column: number, out: Float32Array): boolean;
}

/** Measures of a matrix, CSS pixels. */
export interface Layout {
  /** Visible size. */
  width: number;
  height: number;
  /** Size of the row and column labels. */
  left: number;
  top: number;
  cellWidth: number;
  cellHeight: number;
  /** Column labels are vertical. */
  upright: boolean;
}

export interface Cursor {
  row: number;
  column: number;
}

const nameFont = "12px ";
const figureFont = "11px ";
const course = new Float32Array(60);

/** The layout for a width: cells as large as possible, and large enough to point at. */
export function layoutOf(cells: Cells, width: number, most: number, coarse: boolean, textWidth: (text: string) => number): Layout {
  const longest = (names: string[]) => names.reduce((w, name) => Math.max(w, textWidth(name)), 0);
  const left = Math.ceil(Math.min(longest(cells.rows) + 14, width < 500 ? 84 : 150));
  const long = longest(cells.columns);
  const room = (width - left) / Math.max(1, cells.columns.length);
  const figures = cells.figure !== undefined;
  const cellWidth = figures ? clamp(Math.floor(room), 52, 110) : clamp(Math.floor(room), coarse ? 16 : 5, 24);
  const upright = long + 8 > cellWidth;
  const top = upright ? Math.ceil(Math.min(long + 14, 110)) : 24;
  const cellHeight = figures ? 40 : cellWidth;
  return { width, height: Math.min(most, top + cells.rows.length * cellHeight + 1), left, top, cellWidth, cellHeight, upright };
}

const clamp = (v: number, low: number, high: number) => Math.max(low, Math.min(high, v));

/** MatrixPainter draws the visible part of a matrix. */
export class MatrixPainter {
  private heat: HTMLCanvasElement | undefined;
  private heatOf = -1;

  /** Draws; version tells whether the cells have changed. */
  draw(canvas: HTMLCanvasElement, cells: Cells, layout: Layout, scroll: { x: number; y: number }, cursor: Cursor | undefined, version: number): void {
    const ratio = globalThis.devicePixelRatio || 1;
    const [w, h] = [Math.round(layout.width * ratio), Math.round(layout.height * ratio)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
    }
    const g = canvas.getContext("2d");
    if (!g) return;
    const style = getComputedStyle(canvas);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.fillStyle = colour("--panel");
    g.fillRect(0, 0, layout.width, layout.height);
    g.save();
    g.beginPath();
    g.rect(layout.left, layout.top, layout.width - layout.left, layout.height - layout.top);
    g.clip();
    g.translate(layout.left - scroll.x, layout.top - scroll.y);
    const seen = visible(cells, layout, scroll);
    if (cells.figure) this.figures(g, cells, layout, seen, style.fontFamily);
    else this.colours(g, cells, layout, seen, version, colour("--panel"));
    groups(g, cells, layout, colour("--line-strong"));
    if (cursor) outline(g, layout, cursor, colour("--ink"), colour("--panel"));
    g.restore();
    names(g, cells, layout, scroll, seen, cursor, style.fontFamily, colour);
  }

  /** One pixel per cell, scaled up: 40,000 rectangles would be too slow. */
  private colours(g: CanvasRenderingContext2D, cells: Cells, layout: Layout, seen: Seen, version: number, gap: string): void {
    const { cellWidth: size } = layout;
    const [columns, rows] = [cells.columns.length, cells.rows.length];
    if (columns === 0 || rows === 0) return;
    if (this.heat === undefined || this.heatOf !== version) {
      this.heat ??= document.createElement("canvas");
      this.heat.width = columns;
      this.heat.height = rows;
      const pixels = this.heat.getContext("2d");
      if (!pixels) return;
      const image = pixels.createImageData(columns, rows);
      const words = new Uint32Array(image.data.buffer);
      const packed = Uint32Array.from(cells.palette, ({ colour }) => {
        const [r, green, b] = channels(colour);
        return ((255 << 24) | (b << 16) | (green << 8) | r) >>> 0;
      });
      for (let row = 0, i = 0; row < rows; row++) {
        for (let column = 0; column < columns; column++) words[i++] = packed[cells.tone(row, column)] ?? 0;
      }
      pixels.putImageData(image, 0, 0);
      this.heatOf = version;
    }
    g.imageSmoothingEnabled = false;
    g.drawImage(this.heat, 0, 0, columns * size, rows * size);
    if (size >= 5) {
      g.fillStyle = gap;
      for (let column = seen.column; column <= seen.columnEnd; column++) g.fillRect(column * size - 1, seen.row * size, 1, (seen.rowEnd - seen.row) * size);
      for (let row = seen.row; row <= seen.rowEnd; row++) g.fillRect(seen.column * size, row * size - 1, (seen.columnEnd - seen.column) * size, 1);
    }
    if (size >= 9) this.dots(g, cells, size, seen);
  }

  private dots(g: CanvasRenderingContext2D, cells: Cells, size: number, seen: Seen): void {
    const dotted = cells.palette.map((t) => t.dot === true);
    const index = dotted.indexOf(true);
    if (index < 0) return;
    g.fillStyle = inkOn(cells.palette[index]?.colour ?? "#ffffff");
    g.globalAlpha = 0.3;
    const at = Math.floor(size / 2) - 1;
    for (let row = seen.row; row < seen.rowEnd; row++) {
      for (let column = seen.column; column < seen.columnEnd; column++) {
        if (dotted[cells.tone(row, column)]) g.fillRect(column * size + at, row * size + at, 2, 2);
      }
    }
    g.globalAlpha = 1;
  }

  private figures(g: CanvasRenderingContext2D, cells: Cells, layout: Layout, seen: Seen, family: string): void {
    const { cellWidth: w, cellHeight: h } = layout;
    g.font = figureFont + family;
    g.textAlign = "center";
    g.textBaseline = "alphabetic";
    g.lineWidth = 1;
    g.lineJoin = "round";
    for (let row = seen.row; row < seen.rowEnd; row++) {
      for (let column = seen.column; column < seen.columnEnd; column++) {
        const tone = cells.palette[cells.tone(row, column)];
        if (!tone) continue;
        const [x, y] = [column * w, row * h];
        g.fillStyle = tone.colour;
        g.fillRect(x, y, w - 1, h - 1);
        g.fillStyle = g.strokeStyle = inkOn(tone.colour);
        const text = cells.figure?.(row, column);
        if (text) g.fillText(text, x + w / 2, y + (cells.course ? 14 : h / 2 + 4), w - 4);
        if (cells.course?.(row, column, course)) line(g, course, x + 4, y + 19, w - 9, h - 24);
      }
    }
  }
}

/** Axis ends of a sparkline, wide enough not to magnify small changes. */
export function courseEnds(values: ArrayLike<number>): [number, number] | undefined {
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; i++) {
    const v = values[i] ?? NaN;
    if (v < low) low = v;
    if (v > high) high = v;
  }
  if (low > high) return undefined;
  const span = Math.max(high - low, Math.abs(high) * 0.2, Number.MIN_VALUE);
  const middle = (low + high) / 2;
  return low >= 0 && middle - span / 2 < 0 ? [0, span] : [middle - span / 2, middle + span / 2];
}

function line(g: CanvasRenderingContext2D, values: Float32Array, x: number, y: number, w: number, h: number): void {
  const ends = courseEnds(values);
  if (!ends) return;
  const across = w / (values.length - 1);
  const up = h / (ends[1] - ends[0]);
  let open = false;
  g.beginPath();
  for (let i = 0; i < values.length; i++) {
    const v = values[i] ?? NaN;
    if (v !== v) open = false;
    else {
      const at = y + h - (v - ends[0]) * up;
      if (open) g.lineTo(x + i * across, at);
      else g.moveTo(x + i * across - 0.5, at), g.lineTo(x + i * across, at);
      open = true;
    }
  }
  g.stroke();
}

interface Seen { row: number; rowEnd: number; column: number; columnEnd: number }

function visible(cells: Cells, layout: Layout, scroll: { x: number; y: number }): Seen {
  return {
    row: Math.max(0, Math.floor(scroll.y / layout.cellHeight)),
    rowEnd: Math.min(cells.rows.length, Math.ceil((scroll.y + layout.height - layout.top) / layout.cellHeight)),
    column: Math.max(0, Math.floor(scroll.x / layout.cellWidth)),
    columnEnd: Math.min(cells.columns.length, Math.ceil((scroll.x + layout.width - layout.left) / layout.cellWidth)),
  };
}

function groups(g: CanvasRenderingContext2D, cells: Cells, layout: Layout, colour: string): void {
  g.fillStyle = colour;
  const { rowGroups, columnGroups } = cells;
  const [width, height] = [cells.columns.length * layout.cellWidth, cells.rows.length * layout.cellHeight];
  rowGroups?.forEach((group, i) => i > 0 && group !== rowGroups[i - 1] && g.fillRect(0, i * layout.cellHeight - 1, width, 1));
  columnGroups?.forEach((group, i) => i > 0 && group !== columnGroups[i - 1] && g.fillRect(i * layout.cellWidth - 1, 0, 1, height));
}

function outline(g: CanvasRenderingContext2D, layout: Layout, cursor: Cursor, ink: string, ground: string): void {
  const { cellWidth: w, cellHeight: h } = layout;
  const [x, y] = [cursor.column * w, cursor.row * h];
  g.strokeStyle = ground;
  g.lineWidth = 4;
  g.strokeRect(x - 1, y - 1, w + 1, h + 1);
  g.strokeStyle = ink;
  g.lineWidth = 2;
  g.strokeRect(x - 1, y - 1, w + 1, h + 1);
}

function names(g: CanvasRenderingContext2D, cells: Cells, layout: Layout, scroll: { x: number; y: number }, seen: Seen, cursor: Cursor | undefined, family: string, colour: (name: string) => string): void {
  const { left, top, cellWidth: w, cellHeight: h, upright } = layout;
  g.font = nameFont + family;
  g.textBaseline = "middle";
  const write = (text: string, most: number, current: boolean, x: number, y: number) => {
    g.fillStyle = current ? colour("--accent") : colour("--ink-soft");
    g.fillText(clipped(g, text, most), x, y);
  };
  // beside
  g.save();
  g.beginPath();
  g.rect(0, top, left, layout.height - top);
  g.clip();
  g.textAlign = "right";
  each(seen.row, seen.rowEnd, h, cursor?.row, (row, current) => write(cells.rows[row] ?? "", left - 10, current, left - 6, Math.max(top + lineHeight / 2, top + (row + 0.5) * h - scroll.y)));
  g.restore();
  // above
  g.save();
  g.beginPath();
  g.rect(left, 0, layout.width - left, top);
  g.clip();
  g.textAlign = upright ? "left" : "center";
  each(seen.column, seen.columnEnd, upright ? w : Infinity, cursor?.column, (column, current) => {
    const x = Math.max(left + lineHeight / 2, left + (column + 0.5) * w - scroll.x);
    if (!upright) return write(cells.columns[column] ?? "", w - 4, current, x, top / 2);
    g.save();
    g.translate(x, top - 6);
    g.rotate(-Math.PI / 2);
    write(cells.columns[column] ?? "", top - 10, current, 0, 0);
    g.restore();
  });
  g.restore();
}

const lineHeight = 14;

/** Draws the labels that fit; always the label under the cursor. */
function each(start: number, end: number, size: number, current: number | undefined, write: (i: number, current: boolean) => void): void {
  const every = Math.max(1, Math.ceil(lineHeight / size));
  for (let i = start - (start % every); i < end; i += every) {
    if (i < start || (current !== undefined && Math.abs(i - current) * size < lineHeight)) continue;
    write(i, false);
  }
  if (current !== undefined && current >= start && current < end) write(current, true);
}

function clipped(g: CanvasRenderingContext2D, text: string, most: number): string {
  if (g.measureText(text).width <= most) return text;
  let n = text.length - 1;
  while (n > 1 && g.measureText(`${text.slice(0, n)}…`).width > most) n--;
  return `${text.slice(0, n)}…`;
}
