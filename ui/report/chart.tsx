// The charts of a report that is a file of its own: SVG, whose colours are classes, so that it is light, dark or printed.
import { valueLabels } from "../chart/axis.ts";
import { linearTicks, logTicks, roundUp } from "../chart/scale.ts";

export interface Axis {
  name: string;
  from: number;
  to: number;
  log?: boolean;
  format: (value: number) => string;
}

/** Steps between edges (one more than heights), a line through points, or a rule at a value. */
export interface Shape {
  kind: "steps" | "line" | "rule";
  style: string;
  label?: string;
  x: readonly number[];
  /** Undefined: nothing was measured there. */
  y?: readonly (number | undefined)[];
}

interface ChartProps {
  title: string;
  caption?: string;
  x: Axis;
  y: Axis;
  shapes: readonly Shape[];
  width?: number;
  height?: number;
}

const [left, right, top, foot] = [60, 24, 26, 40];

/** A value rounded up, so that an axis ends with a tick. */
export function ceiling(value: number): number {
  const step = roundUp(value / 5);
  return step * Math.ceil(value / step - 1e-9);
}

/** Chart draws shapes in a coordinate system, below its title. */
export function Chart({ title, caption, x, y, shapes, width = 360, height = 230 }: ChartProps) {
  const [base, end] = [height - foot, width - right];
  const px = placed(x, left, end);
  const py = placed(y, base, top);
  const [xs, ys] = [ticksOf(x, 5), ticksOf(y, 5)];
  return (
    <figure>
      <h4>{title}</h4>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${title}: ${y.name} up to ${y.format(y.to)}, by ${x.name} up to ${x.format(x.to)}`}>
        <g class="grid">{ys.map(({ at }) => <path key={at} d={`M${left} ${py(at)}H${end}`} />)}</g>
        {shapes.map((s, i) => <path key={i} class={`${s.kind} ${s.style}`} d={drawn(s, px, py, base)}>{s.label && <title>{s.label}</title>}</path>)}
        <path class="axis" d={`M${left} ${base}H${end}${xs.map(({ at }) => `M${px(at)} ${base}v4`).join("")}`} />
        {xs.map(({ at, label }) => <text key={at} x={px(at)} y={base + 16} text-anchor="middle">{label}</text>)}
        {ys.map(({ at, label }) => <text key={at} x={left - 7} y={py(at)} dy=".34em" text-anchor="end">{label}</text>)}
        <text x="4" y="11">{y.name}</text>
        <text x={(left + end) / 2} y={height - 6} text-anchor="middle">{x.name}</text>
      </svg>
      {caption && <figcaption>{caption}</figcaption>}
    </figure>
  );
}

function ticksOf({ from, to, log, format }: Axis, most: number): { at: number; label: string }[] {
  const ticks = (log ? logTicks : linearTicks)(from, to, most);
  const labels = valueLabels(ticks, format);
  return ticks.map((at, i) => ({ at, label: labels[i] ?? "" }));
}

/** The position of a value between two positions; beyond the axis at its end. */
function placed({ from, to, log }: Axis, low: number, high: number): (value: number) => number {
  const of = log ? (v: number) => Math.log(Math.max(v, from)) : (v: number) => v;
  return (value) => Math.round(10 * (low + Math.min(1, Math.max(0, (of(value) - of(from)) / (of(to) - of(from)))) * (high - low))) / 10;
}

function drawn({ kind, x, y = [] }: Shape, px: (value: number) => number, py: (value: number) => number, base: number): string {
  const at = (i: number) => px(x[i] ?? NaN);
  if (kind === "rule") return `M${at(0)} ${base}V${top}`;
  if (kind === "steps") {
    return `M${at(0)} ${base}${y.map((v, i) => `V${v ? Math.min(py(v), base - 1) : base}H${at(i + 1)}`).join("")}V${base}Z`; // what is not empty stays visible
  }
  return y.map((v, i) => {
    if (v === undefined) return "";
    if (y[i - 1] !== undefined) return `L${at(i)} ${py(v)}`;
    return y[i + 1] === undefined ? `M${at(i) - 3} ${py(v)}h6` : `M${at(i)} ${py(v)}`; // a lone point is a dash
  }).join("");
}
