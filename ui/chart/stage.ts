// The stage of a chart: uPlot provides axes, grid, cursor and its synchronization in a
// group; the chart itself paints the plot area.
import uPlot from "uplot";
import { timeLabels, timeSteps, valueLabels } from "./axis.ts";
import type { Range } from "./plot.ts";
import type { Scale } from "./scale.ts";

/** View is the plot area; lengths in device pixels. */
export interface View {
  left: number;
  top: number;
  width: number;
  height: number;
  /** Device pixels per CSS pixel. */
  ratio: number;
  range: Range;
  /** Scale heights at the lower and upper edge. */
  low: number;
  high: number;
  x(time: number): number;
  y(value: number): number;
  /** Value of a CSS colour property. */
  colour(name: string): string;
}

/** Painter determines the value axis and paints the plot area. */
export interface Painter {
  scale: Scale;
  /** Smallest and largest value to show in a range. */
  ends(range: Range): [number, number];
  paint(ctx: CanvasRenderingContext2D, view: View): void;
}

interface StageProps {
  height: number;
  group?: string;
  painter: Painter;
  format: (value: number) => string;
  /** Time at the cursor and its place in CSS pixels, if any. */
  onCursor: (at: { time: number; left: number; top: number } | undefined) => void;
}

type Box = Pick<View, "left" | "top" | "width" | "height">;

// size of the axes and the margins at the top and right, CSS pixels
const valuesWide = 70;
const timesHigh = 42;
const edges = [10, 22] as const;
const font = '12px system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

/** Stage owns the uPlot of a chart. */
export class Stage {
  readonly plot: uPlot;
  private range: Range;
  private ends: [number, number] = [0, 1];
  private colours = new Map<string, string>();
  private times: { at: number[]; labels: string[] } = { at: [], labels: [] }; // the ticks
  private format: (value: number) => string;

  constructor(readonly box: HTMLElement, private props: StageProps, range: Range, times: ArrayLike<number>) {
    this.range = range;
    this.format = props.format;
    this.measure();
    this.plot = new uPlot(this.options(), data(times), box);
  }

  /** update changes times, range and format with one redraw. */
  update(times: ArrayLike<number>, range: Range, format: (value: number) => string): void {
    this.range = range;
    this.format = format;
    this.measure();
    this.plot.batch(() => {
      if (this.plot.data[0] !== times) this.plot.setData(data(times), false);
      this.plot.setScale("x", { min: range.from, max: range.to });
    });
  }

  /** resize adapts to the size of the box. */
  resize(width: number, height: number): void {
    if (width > 0 && (width !== this.plot.width || height !== this.plot.height)) this.plot.setSize({ width, height });
  }

  /** recolour redraws in the colours of the current theme. */
  recolour(): void {
    this.colours.clear();
    this.plot.redraw(false, false);
  }

  destroy(): void {
    this.plot.destroy();
  }

  /** colour is the value of a CSS colour property. */
  colour(name: string): string {
    let colour = this.colours.get(name);
    if (colour === undefined) {
      colour = name.startsWith("--") ? getComputedStyle(this.box).getPropertyValue(name).trim() : name;
      this.colours.set(name, colour);
    }
    return colour;
  }

  /** picture draws the chart into another context, scaled by a ratio; lengths in CSS pixels. */
  picture(ctx: CanvasRenderingContext2D, left: number, top: number, width: number, height: number, ratio: number): void {
    const box = { left: (left + valuesWide) * ratio, top: (top + edges[0]) * ratio, width: (width - valuesWide - edges[1]) * ratio, height: (height - timesHigh - edges[0]) * ratio };
    const view = this.view(box, ratio);
    ctx.save();
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    this.drawAxes(ctx, view);
    this.between(ctx, view);
    ctx.restore();
  }

  private drawAxes(ctx: CanvasRenderingContext2D, view: View): void {
    const { ratio, left, top, width, height } = view;
    ctx.font = font.replace("12px", `${12 * ratio}px`);
    ctx.strokeStyle = this.colour("--grid");
    ctx.lineWidth = ratio;
    ctx.fillStyle = this.colour("--ink-faint");
    ctx.beginPath();
    const line = (x: number, y: number, x2: number, y2: number) => (ctx.moveTo(x, y), ctx.lineTo(x2, y2));
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    this.times.at.forEach((t, i) => {
      const x = view.x(t);
      line(x, top, x, top + height + 4 * ratio);
      (this.times.labels[i] ?? "").split("\n").forEach((words, row) => ctx.fillText(words, x, top + height + (9 + 17 * row) * ratio));
    });
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    const values = this.ticks(height / ratio);
    valueLabels(values, this.format).forEach((words, i) => {
      const y = view.y(values[i] ?? 0);
      line(left - 4 * ratio, y, left + width, y);
      ctx.fillText(words, left - 9 * ratio, y);
    });
    ctx.stroke();
  }

  private view(box: Box = this.plot.bbox, ratio = uPlot.pxRatio): View {
    const { left, top, width, height } = box;
    const { from, to } = this.range;
    const [low, high] = this.ends;
    const scale = this.props.painter.scale;
    const perMs = width / (to - from);
    const perHeight = height / (high - low);
    return {
      left, top, width, height, low, high, range: this.range, ratio,
      x: (t) => left + (t - from) * perMs,
      y: (v) => top + (high - Math.max(low - 1e3 / perHeight, Math.min(high + 1e3 / perHeight, scale.height(v)))) * perHeight,
      colour: (name) => this.colour(name),
    };
  }

  /** valueAt is the value at a distance from the top of the plot area, CSS pixels. */
  valueAt(top: number): number {
    const [low, high] = this.ends;
    return this.props.painter.scale.value(high - (top / Math.max(1, this.plot.over.clientHeight)) * (high - low));
  }

  private measure(): void {
    const { painter } = this.props;
    const [low, high] = painter.ends(this.range);
    const { scale } = painter;
    this.ends = [scale.height(low), scale.height(high)];
    if (!(this.ends[1] > this.ends[0])) this.ends[1] = this.ends[0] + 1;
  }

  private options(): uPlot.Options {
    const { group, height } = this.props;
    const nothing = () => null;
    const grid = { stroke: () => this.colour("--grid"), width: 1 };
    const axis = { stroke: () => this.colour("--ink-faint"), font, grid, ticks: { ...grid, size: 4 }, gap: 5 };
    return {
      width: Math.max(1, this.box.clientWidth),
      height,
      ms: 1,
      legend: { show: false },
      padding: [edges[0], edges[1], 0, 0],
      cursor: {
        x: true, y: false,
        points: { show: false },
        drag: { x: false, y: false, setScale: false },
        bind: { mousedown: nothing, mouseup: nothing, click: nothing, dblclick: nothing },
        ...(group ? { sync: { key: group, setSeries: false, scales: ["x", null] as [string, null] } } : {}),
      },
      series: [{}, { scale: "y", auto: false, paths: nothing, points: { show: false } }],
      scales: {
        x: { time: true, range: () => [this.range.from, this.range.to] },
        y: { range: () => this.ends },
      },
      axes: [
        { ...axis, incrs: timeSteps, space: (_u, _i, low, high) => (high - low < 60e3 * 5 ? 76 : 62), size: timesHigh, values: (_u, ticks, _i, _space, step) => (this.times = { at: ticks, labels: timeLabels(ticks, step) }).labels },
        {
          ...axis, scale: "y", size: valuesWide,
          splits: () => this.ticks().map((v) => this.props.painter.scale.height(v)),
          values: () => valueLabels(this.ticks(), this.format),
        },
      ],
      hooks: { draw: [(u) => this.between(u.ctx, this.view())], setCursor: [(u) => this.cursor(u)] },
    };
  }

  private ticks(room = (this.plot?.bbox.height ?? 0) / uPlot.pxRatio || this.props.height - edges[0] - timesHigh): number[] {
    const { scale } = this.props.painter;
    return scale.ticks(scale.value(this.ends[0]), scale.value(this.ends[1]), Math.max(2, Math.floor(room / 28)));
  }

  private between(ctx: CanvasRenderingContext2D, view: View): void {
    ctx.save();
    ctx.beginPath();
    ctx.rect(view.left, view.top, view.width, view.height);
    ctx.clip();
    this.props.painter.paint(ctx, view);
    ctx.restore();
  }

  private cursor(u: uPlot): void {
    const { left = -1, top = -1 } = u.cursor;
    this.props.onCursor(left < 0 ? undefined : { time: u.posToVal(left, "x"), left, top });
  }
}

// uPlot needs a series to have a value axis; it is empty.
const data = (times: ArrayLike<number>): uPlot.AlignedData => [times as Float64Array, []];
