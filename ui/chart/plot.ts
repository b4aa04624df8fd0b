// Properties of charts over time. Charts know figures and times, not their source.
import type { Histogram } from "../data/histogram.ts";

/** A range of time, ms since 1970. */
export interface Range {
  from: number;
  to: number;
}

/** A line of a chart: a value for each time; NaN: none. Arrays are never changed in place. */
export interface Line {
  label: string;
  values: ArrayLike<number>;
  /** Name of a CSS property that holds the colour, such as "--out". */
  colour: string;
  width?: number;
  dash?: number[];
  /** Drawn as steps. */
  steps?: boolean;
  /** Only in the legend, such as the edge of a band. */
  hidden?: boolean;
}

/** The area between two lines. */
export interface Band {
  /** Indices of the lines. */
  low: number;
  high: number;
  /** As in Line. */
  colour: string;
  opacity: number;
}

/** An event, drawn as a vertical line. */
export interface Mark {
  time: number;
  level: "info" | "warning" | "error";
  text: string;
}

export interface TimeChartProps {
  title: string;
  /** Window starts, ms since 1970, ascending. */
  times: ArrayLike<number>;
  lines: Line[];
  bands?: Band[];
  marks?: Mark[];
  /** Formats a value with its unit. */
  format: (value: number) => string;
  /** The shown range. */
  range: Range;
  /** The user zoomed or panned. */
  onRange?: (range: Range) => void;
  /** Charts of a group share the cursor. */
  group?: string;
  /** Pixels; default 220. */
  height?: number;
  /** Minimum upper end of the value axis, so that noise does not fill it. */
  atLeast?: number;
  /** The value axis starts at 0 (default), fits the values, or is logarithmic. */
  scale?: "zero" | "fit" | "log";
  /** Shown in an empty chart. */
  empty?: string;
}

/** Properties of a heat map. */
export interface HeatMapProps extends Omit<TimeChartProps, "lines" | "bands" | "scale"> {
  /** Length of a window, ms. */
  step: number;
  /** One for each time. */
  buckets: readonly Histogram[];
}
