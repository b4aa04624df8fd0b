// The charts of a router profile.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { count, duration, share } from "../data/quantity.ts";
import { binned, isSteep, numberBuckets, timeBuckets, type Bins } from "./bins.ts";
import { ceiling, Chart, type Axis, type Shape } from "./chart.tsx";
import type { Buckets, Measured, Pair, Profile, Queue } from "./profile.ts";

/** The consecutive stages, with the classes of their colours. */
export const stages = [
  { key: "input_queuing_ns", name: "input queuing", style: "input", times: "t2 − t1" },
  { key: "processing_ns", name: "processing", style: "processing", times: "t3 − t2" },
  { key: "output_queuing_ns", name: "output queuing", style: "output", times: "t4 − t3" },
] as const;

/** A time in ns as text. */
export const time = (ns: Measured) => duration(ns ?? NaN);

/** Three significant digits; rounding errors of equal numbers are 0. */
export const three = (v: Measured): string => (v === null ? "–" : Math.abs(v) < 1e-9 ? "0" : Math.abs(v) >= 1000 ? v.toFixed(0) : String(Number(v.toPrecision(3))));

const percent = (v: number) => `${Number((100 * v).toPrecision(3))} %`;
const plain = (v: number) => String(Number(v.toPrecision(6)));
const wide = 550;

/** The names of colours and lines. */
export function Key({ of }: { of: readonly { shape: "swatch" | "line" | "rule"; style: string; name: string }[] }) {
  return (
    <div class="legend">
      {of.map(({ shape, style, name }) => (
        <span key={name}>{shape === "swatch" ? <i class={`swatch ${style}`} /> : <svg viewBox="0 0 26 10" aria-hidden="true"><path class={`${shape} ${style}`} d="M1 5H25" /></svg>}{name}</span>
      ))}
    </div>
  );
}

interface DistributionProps {
  title: string;
  name: string;
  style: string;
  bins: Bins;
  total: number;
  format: (value: number) => string;
  /** Also named in the caption if values lie beyond the last bin. */
  longest?: Measured;
  rules?: readonly Shape[];
  log?: boolean;
  width?: number;
  height?: number;
}

/** A distribution as relative frequencies. */
function Distribution({ title, name, style, bins, total, format, longest, rules = [], log, width, height }: DistributionProps) {
  const to = bins.edges.at(-1) ?? 1;
  const y: Axis = { name: "relative frequency", from: log ? 10 ** Math.floor(Math.log10(Math.max(1 / total, 1e-7))) : 0, to: log ? 1 : Math.min(1, ceiling(1.03 * Math.max(...bins.parts))), log, format: percent };
  const shapes: Shape[] = [{ kind: "steps", style, x: bins.edges, y: bins.parts }, ...rules.filter((r) => (r.x[0] ?? 0) <= to)];
  const caption = bins.width === 1 ? [] : [`bins of ${format(bins.width)}`];
  if (bins.beyond > 0) caption.push(`${count(bins.beyond)} (${share(bins.beyond / total)}) beyond${longest ? `, the longest ${time(longest)}` : ""}`);
  return <Chart title={title} caption={caption.join("; ")} x={{ name, from: bins.edges[0] ?? 0, to, format }} y={y} shapes={shapes} width={width} height={height} />;
}

/** The times of intervals since the start, with the axis for them. */
function clock(start: string, times: readonly string[]): { at: number[]; axis: Axis } {
  let at = times.map((t) => (Date.parse(t) - Date.parse(start)) / 1000);
  const minutes = (at.at(-1) ?? 0) > 600;
  if (minutes) at = at.map((s) => s / 60);
  return { at, axis: { name: `${minutes ? "minutes" : "seconds"} since the start`, from: 0, to: Math.max(0.1, at.at(-1) ?? 0), format: plain } };
}

const linesKey = stages.map(({ style, name }) => ({ shape: "line", style, name }) as const);

interface PairFiguresProps {
  pair: Pair;
  buckets: readonly Buckets[];
  start: string;
  /** The intervals, with this pair if it had packets. */
  points: readonly { time: string; pair: Pair | undefined }[];
}

/** PairFigures draws how long packets of a pair were in each stage: how often, and over time. */
export function PairFigures({ pair, buckets, start, points }: PairFiguresProps) {
  const drawn = stages.flatMap((stage, i) => {
    const [times, of] = [pair.stages[stage.key], buckets[i]];
    return of && times.count > 0 ? [{ stage, times, of, bins: binned(timeBuckets(of, times), 200, 100) }] : [];
  });
  const [log, setLog] = useState(drawn.some(({ bins }) => isSteep(bins)));
  const { at, axis } = clock(start, points.map((p) => p.time));
  const overTime = (["p50", "p99"] as const).flatMap((key) => {
    const lines = stages.map((s) => points.map((p) => (p.pair?.packets ? (p.pair.stages[s.key][key] ?? undefined) : undefined)));
    const values = lines.flat().filter((v) => v !== undefined);
    if (values.length === 0) return [];
    const [least, most] = [Math.max(100, Math.min(...values)), Math.max(100, ...values)];
    const title = key === "p50" ? "median" : "99th percentile";
    const y: Axis = most > 50 * least ? { name: "delay", from: 10 ** Math.floor(Math.log10(least)), to: 10 ** Math.ceil(Math.log10(most)), log: true, format: time } : { name: "delay", from: 0, to: ceiling(most * 1.03), format: time };
    return [<Chart key={key} title={title} x={axis} y={y} width={wide} shapes={stages.map((s, i) => ({ kind: "line", style: s.style, label: s.name, x: at, y: lines[i] }))} />];
  });
  return (
    <>
      <h3>Distribution of delays</h3>
      <label class="switch"><input type="checkbox" checked={log} onChange={(e) => setLog(e.currentTarget.checked)} /> logarithmic axis</label>
      <div class="three">
        {drawn.map(({ stage, times, bins }, i) => (
          <Distribution
            key={stage.key} title={`${"abc"[i]}) ${stage.name}`} name={`${stage.name} delay`} style={stage.style} bins={bins} total={times.count} format={time} longest={times.max} log={log}
            rules={[{ kind: "rule", style: "median", label: "median", x: [times.p50 ?? NaN] }, { kind: "rule", style: "p99", label: "99th percentile", x: [times.p99 ?? NaN] }]}
          />
        ))}
      </div>
      <Key of={[{ shape: "rule", style: "median", name: "median" }, { shape: "rule", style: "p99", name: "99th percentile" }]} />
      <h3>Over time</h3>
      <Key of={linesKey} />
      <div class="two">{overTime}</div>
    </>
  );
}

function numbers(title: string, name: string, style: string, counts: readonly number[] | null, width?: number, height?: number): VNode[] {
  const total = counts?.reduce((a, b) => a + b, 0) ?? 0;
  if (total === 0) return [];
  return [<Distribution key={title} title={title} name={name} style={style} bins={binned(numberBuckets(counts), 400, 9.5, 1)} total={total} format={plain} width={width} height={height} />];
}

/** The distributions of queue lengths. */
export const sizeFigures = (queues: readonly (Queue & { name: string; found: number[] | null; arrived: number[] | null })[]): VNode[] =>
  queues.filter((q) => q.arrivals > 0).flatMap((q) => [
    ...numbers(`${q.name}, size`, "packets found when one left, itself included", q.side, q.found, wide, 180),
    ...numbers(`${q.name}, by seed 3's method`, "packets that came between two that left", q.side, q.arrived, wide, 180),
  ]).slice(0, 16);

/** Queue lengths over time. */
export function depthFigures(names: readonly string[], start: string, points: readonly { time: string; queues: ReadonlyMap<string, Queue> }[]): VNode[] {
  const { at, axis } = clock(start, points.map((p) => p.time));
  return names.flatMap((name) => {
    const line = (value: (q: Queue) => Measured) => points.map((p) => p.queues.get(name)).map((q) => q && (value(q) ?? undefined));
    const [mean, kernel, largest] = [line((q) => q.little.mean_depth), line((q) => q.kernel_depth), line((q) => q.recent_max_depth)];
    const most = Math.max(0, ...[mean, kernel, largest].flat().filter((v) => v !== undefined));
    if (most === 0) return [];
    const shapes: Shape[] = [
      { kind: "line", style: "largest", label: "largest of the interval", x: at, y: largest },
      { kind: "line", style: "kernel", label: "kernel's own figure", x: at, y: kernel },
      { kind: "line", style: `mean ${name.split(" ").at(-1)}`, label: "mean, from arrivals and departures", x: at, y: mean },
    ];
    return [<Chart key={name} title={name} x={axis} y={{ name: "packets", from: 0, to: ceiling(1.03 * most), format: plain }} shapes={shapes} width={wide} />];
  });
}

/** Coffee breaks over time, the packets between them, and their lengths. */
export function breakFigures({ summary: { start, breaks: b }, intervals, breaks }: Profile): VNode[] {
  const { at, axis } = clock(start, intervals.map((i) => i.time));
  const counts = intervals.map((i) => i.breaks);
  const most = Math.max(0, ...counts);
  const bins = binned(timeBuckets(breaks.length, b.length_ns), 200, 100);
  return [
    ...(most > 0 ? [<Chart key="time" title="over time" x={axis} y={{ name: "breaks in an interval", from: 0, to: ceiling(most), format: plain }} shapes={[{ kind: "steps", style: "pause", x: [0, ...at], y: counts }]} />] : []),
    ...numbers("inter-occurrence", "packets from one break to the next", "pause", breaks.between),
    ...(b.length_ns.count > 0 ? [<Distribution key="length" title="length" name="length" style="pause" bins={bins} total={b.length_ns.count} format={time} longest={b.longest_ns} />] : []),
  ];
}
