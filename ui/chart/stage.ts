// The stage of a chart: a uPlot with its lines, bands, axes, grid and cursor, which is
// synchronised in a group.
import uPlot from "uplot";
import { timeLabels, timeSteps, valueLabels } from "./axis.ts";
import { channels } from "./colour.ts";
import type { Band, Line, Range } from "./plot.ts";
import type { Scale } from "./scale.ts";
import { traced } from "./trace.ts";

/** View is the plot area; lengths in device pixels. */
export interface View {
  left: number;
  top: number;
  width: number;
  height: number;
  /** Device pixels per CSS pixel. */
  ratio: number;
  range: Range;
  x(time: number): number;
  y(value: number): number;
  /** Value of a CSS colour property. */
  colour(name: string): string;
}

/** What a chart draws at a time. */
export interface Drawing {
  times: ArrayLike<number>;
  lines: readonly Line[];
  bands?: readonly Band[];
  range: Range;
  scale: Scale;
  /** Ends of the value axis. */
  ends: [number, number];
  format: (value: number) => string;
  /** Paints on top of the lines, clipped to the plot area. */
  paint(ctx: CanvasRenderingContext2D, view: View): void;
}

interface StageProps {
  width: number;
  height: number;
  group?: string;
  /** All lengths are multiplied by this, for images; default 1. */
  zoom?: number;
  /** Time at the cursor and its place in CSS pixels, if any. */
  onCursor?: (at: { time: number; left: number; top: number } | undefined) => void;
}

const family = 'system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
const edgePaths = uPlot.paths.linear?.();

/** A stage draws lines that differ in this key only by their values. */
export const shapeOf = ({ lines, bands, scale }: Drawing): string =>
  JSON.stringify([lines.map(({ values, ...look }) => look), bands, scale.distr, scale.asinh]);

/** Stage owns the uPlot of a chart. */
export class Stage {
  readonly plot: uPlot;
  private colours = new Map<string, string>();
  private xs = new Float64Array(0); // places of the times in the drawing
  private readonly order: number[]; // of the lines: edges of bands first, so that bands do not cover lines
  private readonly zoom: number;

  /** Takes its colours from the box, into which the plot goes unless it is for an image. */
  constructor(readonly box: HTMLElement, private drawing: Drawing, private props: StageProps) {
    const { lines } = drawing;
    this.zoom = props.zoom ?? 1;
    this.order = [...lines.keys()].sort((a, b) => Number(Boolean(lines[b]?.hidden)) - Number(Boolean(lines[a]?.hidden)));
    this.plot = new uPlot(this.options(), this.data(), props.zoom ? (_u, init) => init() : box);
  }

  /** update shows a drawing of the same shape with one redraw. */
  update(drawing: Drawing): void {
    this.drawing = drawing;
    const { from, to } = drawing.range;
    this.plot.batch(() => {
      this.plot.setData(this.data(), false);
      this.plot.setScale("x", { min: from, max: to });
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

  /** valueAt is the value at a distance from the top of the plot area, CSS pixels. */
  valueAt = (top: number): number => this.plot.posToVal(top, "y");

  /** image draws the chart in a size, CSS pixels, with at least `ratio` device pixels each. */
  async image(width: number, height: number, ratio: number): Promise<HTMLCanvasElement> {
    const zoom = ratio / uPlot.pxRatio;
    const copy = new Stage(this.box, this.drawing, { width: width * zoom, height: height * zoom, zoom });
    await Promise.resolve(); // uPlot draws in a microtask
    const { canvas } = copy.plot.ctx;
    copy.destroy();
    return canvas;
  }

  private colour = (name: string): string => {
    let colour = this.colours.get(name);
    if (colour === undefined) {
      colour = name.startsWith("--") ? getComputedStyle(this.box).getPropertyValue(name).trim() : name;
      this.colours.set(name, colour);
    }
    return colour;
  };

  private data(): uPlot.AlignedData {
    const { times, lines, bands = [] } = this.drawing;
    const edges = new Set(bands.flatMap((b) => [b.low, b.high]));
    return [times as Float64Array, ...this.order.map((i) => (edges.has(i) ? gapped(lines[i]?.values ?? []) : (lines[i]?.values as Float64Array)))];
  }

  private series(i: number): uPlot.Series {
    const { lines, bands = [] } = this.drawing;
    const line = lines[i];
    const edge = bands.some((b) => b.low === i || b.high === i);
    const stroke = line && !line.hidden ? () => this.colour(line.colour) : undefined;
    return {
      scale: "y", auto: false, stroke, fill: undefined, width: stroke ? (line?.width ?? 1.5) * this.zoom : 0, points: { show: false },
      dash: line?.dash?.map((d) => d * uPlot.pxRatio * this.zoom), cap: line?.dash ? "butt" : "round",
      paths: (u, s, i0, i1) => {
        const paths = edge ? edgePaths?.(u, s, i0, i1) ?? null : null;
        const own = this.drawing.lines[i];
        return stroke && own ? { ...paths, stroke: traced(own, this.xs, i0, i1 + 1, this.place(u).y) } : paths;
      },
    };
  }

  /** Positions in the plot area; faster than uPlot's, where the axis is linear. */
  private place(u: uPlot): Pick<View, "x" | "y"> {
    const { bbox: { left, top, width, height } } = u;
    const { range: { from, to }, ends: [low, high], scale } = this.drawing;
    const [perMs, perValue] = [width / (to - from), height / (high - low)];
    return { x: (t) => left + (t - from) * perMs, y: scale.distr === 1 ? (v) => top + (high - v) * perValue : (v) => u.valToPos(v, "y", true) };
  }

  private options(): uPlot.Options {
    const { zoom, drawing: { bands = [], scale }, props: { group, width, height } } = this;
    const nothing = () => null;
    const grid = { stroke: () => this.colour("--grid"), width: zoom };
    const axis = { stroke: () => this.colour("--ink-faint"), font: `${12 * zoom}px ${family}`, grid, ticks: { ...grid, size: 4 * zoom }, gap: 5 * zoom };
    const place = (i: number): number => this.order.indexOf(i) + 1;
    return {
      width: Math.max(1, width),
      height,
      ms: 1,
      legend: { show: false },
      padding: [10 * zoom, 32 * zoom, 0, 0],
      cursor: {
        x: true, y: false,
        points: { show: false },
        drag: { x: false, y: false, setScale: false },
        bind: { mousedown: nothing, mouseup: nothing, click: nothing, dblclick: nothing },
        ...(group ? { sync: { key: group, setSeries: false, scales: ["x", null] as [string, null] } } : {}),
      },
      series: [{}, ...this.order.map((i) => this.series(i))],
      bands: bands.map(({ low, high, colour, opacity }) => ({
        series: [place(high), place(low)], fill: () => `rgb(${channels(this.colour(colour)).join(" ")} / ${opacity})`,
      })),
      scales: {
        x: { time: true, range: () => [this.drawing.range.from, this.drawing.range.to] },
        y: { distr: scale.distr, asinh: scale.asinh, range: () => this.drawing.ends },
      },
      axes: [
        { ...axis, incrs: timeSteps, space: (_u, _i, low, high) => (high - low < 60e3 * 5 ? 76 : 62) * zoom, size: 42 * zoom, values: (_u, ticks, _i, _space, step) => timeLabels(ticks, step) },
        {
          ...axis, scale: "y", size: 70 * zoom,
          splits: (u) => this.drawing.scale.ticks(...this.drawing.ends, Math.max(2, Math.floor(u.bbox.height / uPlot.pxRatio / zoom / 28))),
          filter: (_u, ticks) => ticks,
          values: (_u, ticks) => valueLabels(ticks, this.drawing.format),
        },
      ],
      hooks: { drawClear: [(u) => (this.xs = Float64Array.from(this.drawing.times, this.place(u).x))], draw: [(u) => this.paint(u)], setCursor: [(u) => this.cursor(u)] },
    };
  }

  private paint(u: uPlot): void {
    const { ctx, bbox: { left, top, width, height } } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    this.drawing.paint(ctx, {
      left, top, width, height, ratio: uPlot.pxRatio * this.zoom, range: this.drawing.range, colour: this.colour, ...this.place(u),
    });
    ctx.restore();
  }

  private cursor(u: uPlot): void {
    const { left = -1, top = -1 } = u.cursor;
    this.props.onCursor?.(left < 0 ? undefined : { time: u.posToVal(left, "x"), left, top });
  }
}

type Values = uPlot.AlignedData[1];

/** Values with null for NaN, which uPlot treats as a number. */
const gapped = (values: ArrayLike<number>): Values => Array.from(values, (v) => (Number.isNaN(v) ? null : v));
