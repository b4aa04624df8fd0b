// Event marks: a thin line across the chart with a small flag, whose shape
// shows the level.
import type { Mark, Range } from "./plot.ts";
import type { View } from "./stage.ts";

const colours = { info: "--busy", warning: "--warning", error: "--bad" } as const;
const order = { info: 0, warning: 1, error: 2 } as const;

/** Marks in a range, the most severe last, so that they are on top. */
export function marksIn(marks: Mark[], range: Range): Mark[] {
  return marks.filter((m) => m.time >= range.from && m.time <= range.to).sort((a, b) => order[a.level] - order[b.level] || a.time - b.time);
}

/** Marks that are within `near` ms of a time, by time. */
export const marksAt = (marks: Mark[], time: number, near: number): Mark[] =>
  marks.filter((m) => Math.abs(m.time - time) <= near).sort((a, b) => a.time - b.time);

/** paintMarks paints one line per pixel with marks. */
export function paintMarks(ctx: CanvasRenderingContext2D, view: View, marks: Mark[]): void {
  const gravest = new Map<number, Mark>();
  for (const m of marksIn(marks, view.range)) gravest.set(Math.round(view.x(m.time)), m);
  for (const [x, m] of gravest) paintMark(ctx, view, x, m);
}

function paintMark(ctx: CanvasRenderingContext2D, view: View, x: number, mark: Mark): void {
  const r = view.ratio;
  ctx.strokeStyle = ctx.fillStyle = view.colour(colours[mark.level]);
  ctx.lineWidth = r;
  ctx.setLineDash(mark.level === "info" ? [2 * r, 3 * r] : []);
  ctx.globalAlpha = 0.75;
  ctx.beginPath();
  ctx.moveTo(x + 0.5, view.top);
  ctx.lineTo(x + 0.5, view.top + view.height);
  ctx.stroke();
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);
  ctx.beginPath();
  const y = view.top + r;
  if (mark.level === "info") {
    ctx.arc(x + 0.5, y + 4 * r, 3 * r, 0, 2 * Math.PI);
  } else if (mark.level === "warning") {
    ctx.moveTo(x, y);
    ctx.lineTo(x + 5 * r, y + 9 * r);
    ctx.lineTo(x - 5 * r, y + 9 * r);
  } else {
    ctx.rect(x, y, 11 * r, 8 * r);
  }
  ctx.fill();
}
