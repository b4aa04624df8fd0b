// Properties of charts over time. Charts know figures and times, not their source.
import type { Histogram } from "../data/histogram.ts";

/** A range of time, ms since 1970. */
export interface Range {
  from: number;
  to: number;
}

/** One line of a chart: a value for each of the chart's times; NaN: none there. Times and values are not changed once given: new ones are a new array. */
export interface Line {
  label: string;
  values: ArrayLike<number>;
  /** Name of a CSS property that holds the colour, such as "--out". */
  colour: string;
  width?: number;
  dash?: number[];
  /** Drawn as steps, for counts and shares of windows. */
  steps?: boolean;
  /** Only in the legend and under the cursor, such as the edge of a band. */
  hidden?: boolean;
}

/** The area between two lines. */
export interface Band {
  /** Indices of the lines. */
  low: number;
  high: number;
  /** As in Line; opacity 0 to 1. */
  colour: string;
  opacity: number;
}

/** Something that happened, drawn across the chart. */
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
  /** Writes a value with its unit. */
  format: (value: number) => string;
  /** What is shown; the chart follows it. */
  range: Range;
  /** The user zoomed or panned. */
  onRange?: (range: Range) => void;
  /** Charts of one group show the cursor at the same time. */
  group?: string;
  /** Pixels; default 220. */
  height?: number;
  /** Least upper end of the values' axis, so that noise does not fill it. */
  atLeast?: number;
  /** Values' axis begins at 0 (default), fits the values, or is logarithmic. */
  scale?: "zero" | "fit" | "log";
  /** Why there is nothing to draw; shown in place of an empty chart. */
  empty?: string;
}

/** A histogram over time. */
export interface HeatMapProps extends Omit<TimeChartProps, "lines" | "bands" | "scale"> {
  /** Length of a window, ms. */
  step: number;
  /** One for each time. */
  buckets: readonly Histogram[];
}
