// A sparkline.
import "../style/chart.css";
import { extremes } from "./ends.ts";

interface SparklineProps {
  /** Evenly spaced, the latest last; NaN: no value. */
  values: ArrayLike<number>;
  /** Name of a CSS property that holds the colour; default "--accent". */
  colour?: string;
  width?: number;
  height?: number;
  /** Ends of the value axis; default: the extremes of the values and zero. */
  min?: number;
  max?: number;
  /** Label for screen readers; without one it is hidden from them. */
  label?: string;
}

/** Sparkline shows the history of a figure within a line of text. */
export function Sparkline({ values, colour = "--accent", width = 96, height = 22, min, max, label }: SparklineProps) {
  const said = label ? { role: "img" as const, "aria-label": label } : { "aria-hidden": "true" as const };
  return (
    <svg class="sparkline" width={width} height={height} viewBox={`0 0 ${width} ${height}`} {...said} style={{ stroke: `var(${colour})` }}>
      <path d={sparkPath(values, width, height, min, max)} fill="none" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round" />
    </svg>
  );
}

/** sparkPath is the line as an SVG path: minimum and maximum of each half pixel, broken at gaps. */
export function sparkPath(values: ArrayLike<number>, width: number, height: number, min?: number, max?: number): string {
  const found: [number, number] = [Infinity, -Infinity];
  extremes(values, 0, values.length, found);
  const low = min ?? Math.min(0, found[0]);
  const high = max ?? found[1];
  const pad = 1.5;
  const y = (v: number) => {
    const t = high > low ? (Math.min(high, Math.max(low, v)) - low) / (high - low) : 0;
    return height - pad - t * (height - 2 * pad);
  };
  const across = (width - 2 * pad) / Math.max(1, values.length - 1);
  const words: string[] = [];
  let column = -1;
  let open = false;
  let [least, most] = [0, 0];
  const flush = () => {
    if (column < 0) return;
    const x = (pad + column).toFixed(1);
    words.push(`${open ? "L" : "M"}${x} ${y(least).toFixed(1)}`);
    if (most > least || !open) words.push(`L${x} ${y(most).toFixed(1)}`);
    open = true;
  };
  for (let i = 0; i < values.length; i++) {
    const v = values[i] ?? NaN;
    if (!Number.isFinite(v)) {
      flush();
      column = -1;
      open = false;
      continue;
    }
    const c = Math.round(i * across * 2) / 2; // half pixels
    if (c !== column) {
      flush();
      column = c;
      least = most = v;
    }
    least = Math.min(least, v);
    most = Math.max(most, v);
  }
  flush();
  return words.join("");
}
