// Paints a graph on a canvas. Dots, lines and labels keep their size on the screen at most zooms. What looks
// alike is painted at once: a graph has thousands of strokes, but few kinds of them.
import type { Point } from "./graph-layout.ts";
import { halfOf, widthOf, type Dot, type Joined, type Placed, type Scene } from "./graph-scene.ts";
import { lineHeight, textSize, type Written } from "./graph-text.ts";
import { onScreen, type Size, type Target, type View } from "./graph-view.ts";

/** The canvas, and the style sheet's colours and font. */
export interface Easel {
  ctx: CanvasRenderingContext2D;
  size: Size;
  /** The value of a CSS property. */
  colour: (name: string) => string;
  font: string;
}

const dim = 0.16;
const crowded = 0.5; // zoom of graphs so large that unmeasured strokes would cover the others

/** Paints a scene with its labels. */
export function paint(easel: Easel, { picture: { lit, ends }, dots, strokes }: Scene, view: View, labels: readonly Written[]): void {
  const { ctx, size } = easel;
  ctx.clearRect(0, 0, size.width, size.height);
  const rest = lit.size > 0 ? dim : 1;
  const isLit = ({ stroke: { id } }: Joined): boolean => lit.has(id);
  ctx.globalAlpha = rest * 0.9;
  paintStrokes(easel, lit.size > 0 ? strokes.filter((s) => !isLit(s)) : strokes, view);
  const highlighted = lit.size > 0 ? strokes.filter(isLit) : [];
  for (const joined of highlighted) underline(easel, joined, view);
  ctx.globalAlpha = 1;
  paintStrokes(easel, highlighted, view);
  for (const [alpha, bright] of [[rest, false], [1, true]] as const) {
    ctx.globalAlpha = alpha;
    paintDots(easel, dots.filter(({ dot: { id } }) => lit.has(id) === bright), view, bright ? lit : ends, ends);
  }
  for (const label of labels) {
    ctx.globalAlpha = label.bright ? 1 : rest;
    write(easel, label, view);
  }
  ctx.globalAlpha = 1;
}

/** Paints what is pointed at, on a canvas above the graph. */
export function paintTarget(easel: Easel, target: Target | undefined, view: View): void {
  const { ctx, size } = easel;
  ctx.clearRect(0, 0, size.width, size.height);
  if (!target) return;
  if ("stroke" in target) {
    underline(easel, target.stroke, view);
    ctx.globalAlpha = 1;
    paintStrokes(easel, [target.stroke], view);
    paintDots(easel, [target.stroke.from, target.stroke.to], view, new Set(), new Set());
  } else {
    const { id } = target.dot.dot;
    paintDots(easel, [target.dot], view, new Set([id]), new Set([id]));
  }
}

/** The part of a stroke between the borders of its dots; undefined: not on the screen, or hidden by them. */
function segment({ from, to }: Joined, view: View, { width, height }: Size): { a: Point; b: Point; ux: number; uy: number; length: number } | undefined {
  const [p, q] = [onScreen(view, from.at), onScreen(view, to.at)];
  if (Math.max(p.x, q.x) < 0 || Math.max(p.y, q.y) < 0 || Math.min(p.x, q.x) > width || Math.min(p.y, q.y) > height) return undefined;
  const whole = Math.hypot(q.x - p.x, q.y - p.y);
  const [ux, uy] = [(q.x - p.x) / whole, (q.y - p.y) / whole];
  const [near, far] = [from, to].map(({ dot: { kind } }) => border(kind, halfOf(kind, view.zoom), ux, uy) + 1) as [number, number];
  const length = whole - near - far;
  return length > 0 ? { a: { x: p.x + ux * near, y: p.y + uy * near }, b: { x: q.x - ux * far, y: q.y - uy * far }, ux, uy, length } : undefined;
}

/** Distance of the border of a dot from its middle, in a direction. */
function border(kind: Dot["kind"], half: number, ux: number, uy: number): number {
  if (kind === "agent") return Math.min(half / Math.max(Math.abs(ux), Math.abs(uy)), half * 1.25);
  return kind === "unknown" ? half / (Math.abs(ux) + Math.abs(uy)) : half;
}

interface Brush {
  lines: Path2D;
  heads: Path2D;
  colour: string;
  width: number;
  dashed: boolean;
}

function paintStrokes({ ctx, size, colour }: Easel, strokes: readonly Joined[], view: View): void {
  const brushes = new Map<string, Brush>();
  for (const joined of strokes) {
    const { stroke } = joined;
    const part = segment(joined, view, size);
    if (!part) continue;
    const width = Math.round(widthOf(stroke, view.zoom) * 4) / 4;
    const key = `${stroke.dashed ? 0 : 1} ${stroke.colour} ${width}`;
    let brush = brushes.get(key);
    if (!brush) brushes.set(key, (brush = { lines: new Path2D(), heads: new Path2D(), colour: colour(stroke.colour), width, dashed: stroke.dashed }));
    const { a, b, ux, uy, length } = part;
    const head = 4 + 1.6 * width;
    const tips = length > head * (stroke.both ? 3 : 2); // shorter strokes would be heads only
    const inset = tips ? head * 0.8 : 0;
    const back = stroke.both ? inset : 0;
    brush.lines.moveTo(a.x + ux * back, a.y + uy * back);
    brush.lines.lineTo(b.x - ux * inset, b.y - uy * inset);
    if (tips) tip(brush.heads, b, ux, uy, head);
    if (tips && stroke.both) tip(brush.heads, a, -ux, -uy, head);
  }
  const alpha = ctx.globalAlpha;
  const faint = view.zoom < crowded ? 0.55 : 1;
  // Unmeasured strokes below, strokes of a worse class above.
  for (const [, brush] of [...brushes].sort(([a], [b]) => (a < b ? -1 : 1))) {
    ctx.strokeStyle = ctx.fillStyle = brush.colour;
    ctx.globalAlpha = brush.dashed ? alpha * faint : alpha;
    ctx.lineWidth = brush.width;
    ctx.setLineDash(brush.dashed ? [5, 3] : []);
    ctx.stroke(brush.lines);
    ctx.fill(brush.heads);
  }
  ctx.globalAlpha = alpha;
  ctx.setLineDash([]);
}

/** An arrow head. */
function tip(path: Path2D, at: Point, ux: number, uy: number, length: number): void {
  const [x, y, half] = [at.x - ux * length, at.y - uy * length, length * 0.45];
  path.moveTo(at.x, at.y);
  path.lineTo(x - uy * half, y + ux * half);
  path.lineTo(x + uy * half, y - ux * half);
  path.closePath();
}

function underline({ ctx, size, colour }: Easel, joined: Joined, view: View): void {
  const part = segment(joined, view, size);
  if (!part) return;
  ctx.globalAlpha = 0.25;
  ctx.strokeStyle = colour("--focus");
  ctx.lineWidth = widthOf(joined.stroke, view.zoom) + 9;
  ctx.beginPath();
  ctx.moveTo(part.a.x, part.a.y);
  ctx.lineTo(part.b.x, part.b.y);
  ctx.stroke();
}

interface Look {
  fill: string;
  line: string;
  dash: number[];
}

const looks: Record<Dot["kind"], Look> = {
  agent: { fill: "--accent", line: "--accent", dash: [] },
  group: { fill: "--accent-soft", line: "--accent", dash: [] },
  router: { fill: "--raised", line: "--line-strong", dash: [] },
  unknown: { fill: "--sunk", line: "--ink-faint", dash: [3, 2] },
};

/** Paints dots; dots in `marked` have the colour of the focus, dots in `thick` a thick border. */
function paintDots({ ctx, size, colour }: Easel, dots: readonly Placed[], view: View, marked: ReadonlySet<string>, thick: ReadonlySet<string>): void {
  const brushes = new Map<string, { path: Path2D; inner: Path2D; look: Look; line: string; width: number }>();
  for (const { dot: { id, kind }, at } of dots) {
    const half = halfOf(kind, view.zoom);
    const { x, y } = onScreen(view, at);
    if (x < -half || y < -half || x > size.width + half || y > size.height + half) continue;
    const [focus, wide] = [marked.has(id), thick.has(id)];
    const key = `${kind} ${focus} ${wide}`;
    let brush = brushes.get(key);
    if (!brush) brushes.set(key, (brush = { path: new Path2D(), inner: new Path2D(), look: looks[kind], line: focus ? "--focus" : looks[kind].line, width: wide ? 3.5 : half > 6 ? 2 : 1.25 }));
    outline(brush.path, kind, x, y, half);
    if (kind === "group") outline(brush.inner, kind, x, y, half * 0.66);
  }
  for (const { path, inner, look, line, width } of brushes.values()) {
    ctx.fillStyle = colour(look.fill);
    ctx.fill(path);
    ctx.strokeStyle = colour(line);
    ctx.lineWidth = width;
    ctx.setLineDash(look.dash);
    ctx.stroke(path);
    ctx.lineWidth = 1.25;
    ctx.stroke(inner);
  }
  ctx.setLineDash([]);
}

function outline(path: Path2D, kind: Dot["kind"], x: number, y: number, half: number): void {
  if (kind === "router") {
    path.moveTo(x + half, y);
    path.arc(x, y, half, 0, 2 * Math.PI);
  } else if (kind === "agent") {
    path.roundRect(x - half, y - half, 2 * half, 2 * half, half * 0.4);
  } else {
    const cut = kind === "group" ? half * 0.41 : 0; // an octagon, or a diamond
    const corners: [number, number][] = [[cut, -half], [half, -cut], [half, cut], [cut, half], [-cut, half], [-half, cut], [-half, -cut], [-cut, -half]];
    corners.forEach(([dx, dy], i) => (i === 0 ? path.moveTo(x + dx, y + dy) : path.lineTo(x + dx, y + dy)));
    path.closePath();
  }
}

/** Writes a label with a rim of the colour of the panel, so that it is readable on strokes. */
function write({ ctx, size, colour, font }: Easel, { lines, width, bold, ground, at, dx, dy, below }: Written, view: View): void {
  const { x, y } = onScreen(view, at);
  const inside = x > 0 && x < size.width ? Math.max(0, Math.min(x + dx, size.width - width)) : x + dx;
  const top = inside === x + dx ? y + dy : y + below;
  const height = lines.length * lineHeight;
  if (inside > size.width || top > size.height || inside + width < 0 || top + height < 0) return;
  ctx.font = `${bold ? 600 : 400} ${textSize}px ${font}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.lineJoin = "round";
  ctx.lineWidth = 4;
  ctx.strokeStyle = colour("--panel");
  ctx.fillStyle = colour("--panel");
  if (ground) ctx.fillRect(inside, top, width, height);
  ctx.fillStyle = colour("--ink");
  lines.forEach((line, i) => {
    ctx.strokeText(line, inside + width / 2, top + (i + 0.5) * lineHeight);
    ctx.fillText(line, inside + width / 2, top + (i + 0.5) * lineHeight);
  });
}
