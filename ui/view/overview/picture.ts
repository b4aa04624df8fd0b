// The matrix as numbers: pair, state and colour of each cell.
import { channels, lossColour, sequential } from "../../chart/colour.ts";
import type { Tone } from "../../chart/matrix-paint.ts";
import type { Measure, PairTable } from "../../data/pair-table.ts";
import type { Chosen, Measured } from "./hosts.ts";
import { Calm, placeIn, spanOf, valueAt, type Span } from "./range.ts";
import { stateOf, type PairState } from "./state.ts";

const shades = 64;
const first = { self: 0, none: 1, quiet: 2, bare: 3, live: 4, stale: 4 + shades };
const [leastLoss, mostLoss] = [1e-4, 0.3]; // ends of lossColour

/** Colours of states without a figure. */
export interface Ground {
  panel: string;
  ground: string;
  empty: string;
  line: string;
}

/** Colours of all cells; colours of stale figures are mixed with the panel's. */
export function paletteOf(measure: Measure, dark: boolean, ground: Ground): Tone[] {
  const shade = (i: number) => {
    if (measure !== "loss") return sequential(i / (shades - 1), dark);
    return lossColour(i === 0 ? 0 : leastLoss * (mostLoss / leastLoss) ** ((i - 1) / (shades - 2)), dark);
  };
  const live = Array.from({ length: shades }, (_, i) => ({ colour: shade(i) }));
  const stale = live.map(({ colour }) => ({ colour: mixed(colour, ground.panel, 0.6) }));
  return [{ colour: ground.line }, { colour: ground.ground }, { colour: ground.empty, dot: true }, { colour: ground.empty }, ...live, ...stale];
}

/** A colour mixed with a share of another. */
export function mixed(a: string, b: string, share: number): string {
  const [from, to] = [channels(a), channels(b)];
  return `#${from.map((c, i) => Math.round(c + ((to[i] ?? c) - c) * share).toString(16).padStart(2, "0")).join("")}`;
}

/** Picture holds the cells of the selected hosts. */
export class Picture {
  readonly rows: string[];
  readonly columns: string[];
  /** By cell: index in the palette. */
  readonly tones: Uint8Array;
  /** By cell: number of the pair; -1: no figures. */
  readonly pairs: Int32Array;
  /** Range of the colours; undefined for loss, and before the first figure. */
  span: Span | undefined;
  private readonly intervals: Float64Array; // ms; NaN: not measured
  private readonly values: Float32Array;
  private readonly calm = new Calm();

  constructor(readonly chosen: Chosen, measured: Measured, readonly measure: Measure) {
    this.rows = chosen.rows.names;
    this.columns = chosen.columns.names;
    const size = this.rows.length * this.columns.length;
    this.tones = new Uint8Array(size);
    this.pairs = new Int32Array(size).fill(-1);
    this.values = new Float32Array(size);
    this.intervals = new Float64Array(size).fill(NaN);
    const at = new Map(this.columns.map((name, i) => [name, i]));
    this.rows.forEach((source, row) => {
      for (const [destination, interval] of measured.pairs.get(source) ?? []) {
        const column = at.get(destination);
        if (column !== undefined) this.intervals[row * this.columns.length + column] = interval;
      }
    });
  }

  /** Keeps the colour range of the previous picture, if only the hosts have changed. */
  inherit(before: Picture | undefined): this {
    if (before?.measure === this.measure) this.calm.span = before.calm.span;
    return this;
  }

  /** Updates all cells from the table. */
  update(table: PairTable, now = performance.now()): this {
    const { pairs, values, tones, intervals, columns } = this;
    const places = columns.map((name) => table.place(name));
    for (let row = 0, cell = 0; row < this.rows.length; row++) {
      const from = table.place(this.rows[row] ?? "");
      for (let column = 0; column < columns.length; column++, cell++) {
        const pair = table.between(from, places[column] ?? -1);
        const interval = intervals[cell] ?? NaN;
        pairs[cell] = pair;
        const state = stateOf(pair < 0 ? Infinity : table.age(pair, now), interval === interval ? interval : undefined);
        values[cell] = state === "live" || state === "stale" ? table.figure(pair, this.measure) : NaN;
        tones[cell] = first[state];
      }
    }
    if (this.measure !== "loss") this.span = this.calm.next(spanOf(values));
    this.colour();
    return this;
  }

  /** State of a cell. */
  state(row: number, column: number): PairState {
    if (this.rows[row] === this.columns[column]) return "self";
    const tone = this.tones[this.cell(row, column)] ?? 0;
    return tone >= first.stale ? "stale" : tone >= first.bare ? "live" : tone === first.quiet ? "quiet" : "none";
  }

  /** Number of a cell's pair; -1: no figures. */
  pair(row: number, column: number): number {
    return this.pairs[this.cell(row, column)] ?? -1;
  }

  /** Index of a cell's tone in the palette. */
  tone(row: number, column: number): number {
    return this.tones[this.cell(row, column)] ?? 0;
  }

  private cell(row: number, column: number): number {
    return row * this.columns.length + column;
  }

  private colour(): void {
    const { tones, values, span } = this;
    for (let cell = 0; cell < tones.length; cell++) {
      const begin = tones[cell] ?? 0;
      const value = values[cell] ?? NaN;
      if (begin < first.live) continue;
      if (value !== value) {
        tones[cell] = first.bare; // packets were received, but none with this figure
        continue;
      }
      tones[cell] = begin + shadeOf(this.measure, span, value);
    }
    const at = new Map(this.columns.map((name, i) => [name, i]));
    this.rows.forEach((name, row) => {
      const column = at.get(name);
      if (column !== undefined) tones[this.cell(row, column)] = first.self;
    });
  }
}

function lossShade(share: number): number {
  if (!(share > 0)) return 0;
  const t = Math.log(share / leastLoss) / Math.log(mostLoss / leastLoss);
  return 1 + Math.round(Math.max(0, Math.min(1, t)) * (shades - 2));
}

/** Place of a value among the colours of figures. */
export const shadeOf = (measure: Measure, span: Span | undefined, value: number): number =>
  measure === "loss" ? lossShade(value) : span ? Math.round(placeIn(span, value) * (shades - 1)) : 0;

/** Values along the colour scale, for the legend. */
export function legendOf(measure: Measure, span: Span | undefined): { value: number; place: number }[] {
  if (measure === "loss") return [0, 0.001, 0.01, 0.1, 0.3].map((value) => ({ value, place: lossShade(value) / (shades - 1) }));
  if (!span) return [];
  if (span.high === span.low) return [{ value: span.low, place: 0 }];
  return [0, 0.5, 1].map((place) => ({ value: valueAt(span, place), place }));
}

/** Colours of the scale, for the legend. */
export const liveTones = (palette: Tone[]): Tone[] => palette.slice(first.live, first.live + shades);

/** Colours of the other states, for the legend. */
export const tonesOfStates = (palette: Tone[]): Record<"none" | "quiet" | "stale", string> => ({
  none: palette[first.none]?.colour ?? "", quiet: palette[first.quiet]?.colour ?? "", stale: palette[first.stale + shades / 2]?.colour ?? "",
});
