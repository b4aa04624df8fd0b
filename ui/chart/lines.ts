// Paints lines and bands.
import { axisEnds, extremes, within } from "./ends.ts";
import type { Band, Line, Range, TimeChartProps } from "./plot.ts";
import { linear, logarithmic, type Scale } from "./scale.ts";
import type { Painter, View } from "./stage.ts";
import { thin } from "./thin.ts";

type LinesProps = Pick<TimeChartProps, "times" | "lines" | "bands" | "scale" | "atLeast">;

/** LinesPainter paints the lines of a chart. */
export class LinesPainter implements Painter {
  constructor(private props: LinesProps) {}

  set(props: LinesProps): void {
    this.props = props;
  }

  get scale(): Scale {
    return this.props.scale === "log" ? logarithmic : linear;
  }

  ends(range: Range): [number, number] {
    const { times, lines, bands = [], scale, atLeast } = this.props;
    const [start, end] = within(times, range);
    const found: [number, number] = [Infinity, -Infinity];
    const above = scale === "log" ? 0 : -Infinity;
    for (const line of this.shown()) extremes(line.values, start, end, found, above);
    for (const edge of new Set(bands.flatMap((b) => [b.low, b.high]))) {
      const line = lines[edge];
      if (line?.hidden) extremes(line.values, start, end, found, above);
    }
    return axisEnds(found[0], found[1], scale, atLeast);
  }

  paint(ctx: CanvasRenderingContext2D, view: View): void {
    const { times, lines, bands = [] } = this.props;
    const [start, end] = within(times, view.range);
    for (const band of bands) paintBand(ctx, view, times, lines, band, start, end);
    for (const line of this.shown()) paintLine(ctx, view, times, line, start, end);
  }

  private shown(): Line[] {
    return this.props.lines.filter((line) => !line.hidden);
  }
}

function indices(view: View, times: ArrayLike<number>, values: ArrayLike<number>, start: number, end: number): number[] {
  const wide = (view.range.to - view.range.from) / view.width;
  return thin(times, values, start, end, view.range.from, wide);
}

function paintLine(ctx: CanvasRenderingContext2D, view: View, times: ArrayLike<number>, line: Line, start: number, end: number): void {
  ctx.beginPath();
  trace(ctx, view, times, line, indices(view, times, line.values, start, end));
  ctx.strokeStyle = view.colour(line.colour);
  ctx.lineWidth = (line.width ?? 1.5) * view.ratio;
  ctx.lineJoin = "round";
  ctx.lineCap = line.dash ? "butt" : "round";
  ctx.setLineDash((line.dash ?? []).map((d) => d * view.ratio));
  ctx.stroke();
}

// A single value between gaps becomes a dot: a line of zero length with round ends.
function trace(ctx: CanvasRenderingContext2D, view: View, times: ArrayLike<number>, line: Line, kept: number[]): void {
  const { values, steps } = line;
  const hold = steps ? stepOf(times) : 0;
  let before = NaN;
  let lone = false;
  const leave = (t: number, x: number) => {
    if (steps && before === before) ctx.lineTo(Math.min(view.x(t + hold), x), before);
    else if (lone) ctx.lineTo(view.x(t), before);
  };
  let last = 0;
  for (const i of kept) {
    const t = times[i] ?? 0;
    const v = values[i] ?? NaN;
    const x = view.x(t);
    if (v !== v) {
      leave(last, x);
      before = NaN;
      continue;
    }
    const y = view.y(v);
    if (before !== before) {
      ctx.moveTo(x, y);
      lone = true;
    } else {
      if (steps) ctx.lineTo(x, before);
      ctx.lineTo(x, y);
      lone = false;
    }
    before = y;
    last = t;
  }
  leave(last, Infinity);
}

/** Length of a window: the distance of the last two times. */
function stepOf(times: ArrayLike<number>): number {
  const n = times.length;
  return n > 1 ? (times[n - 1] ?? 0) - (times[n - 2] ?? 0) : 0;
}

function paintBand(ctx: CanvasRenderingContext2D, view: View, times: ArrayLike<number>, lines: Line[], band: Band, start: number, end: number): void {
  const low = lines[band.low];
  const high = lines[band.high];
  if (!low || !high) return;
  ctx.beginPath();
  for (const run of runs(view, times, low.values, high.values, start, end)) {
    run.forEach(([x, , top], k) => (k === 0 ? ctx.moveTo(x, top) : ctx.lineTo(x, top)));
    for (let k = run.length - 1; k >= 0; k--) {
      const [x, bottom] = run[k] ?? [0, 0, 0];
      ctx.lineTo(x, bottom);
    }
    ctx.closePath();
  }
  ctx.globalAlpha = band.opacity;
  ctx.fillStyle = view.colour(band.colour);
  ctx.fill();
  ctx.globalAlpha = 1;
}

// Runs without gaps of x, lower and upper edge; one point per pixel column at most.
function runs(view: View, times: ArrayLike<number>, low: ArrayLike<number>, high: ArrayLike<number>, start: number, end: number): [number, number, number][][] {
  const found: [number, number, number][][] = [];
  let run: [number, number, number][] | undefined;
  for (let i = start; i < end; i++) {
    const a = view.y(low[i] ?? NaN);
    const b = view.y(high[i] ?? NaN);
    if (!(a === a && b === b)) {
      run = undefined;
      continue;
    }
    const x = view.x(times[i] ?? 0);
    if (!run) found.push((run = []));
    const last = run[run.length - 1];
    if (last && x - last[0] < 1 && run.length > 1) {
      last[1] = Math.max(last[1], a);
      last[2] = Math.min(last[2], b);
    } else {
      run.push([x, a, b]);
    }
  }
  for (const r of found) {
    const only = r[0];
    if (only && r.length === 1) r.push([only[0] + view.ratio, only[1], only[2]]); // else no area
  }
  return found;
}
