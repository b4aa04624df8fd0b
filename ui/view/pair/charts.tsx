// The charts of a pair on one time axis.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { HeatMap } from "../../chart/heat.tsx";
import type { Band, Line, Mark, Range } from "../../chart/plot.ts";
import { TimeChart } from "../../chart/time.tsx";
import { columnsOf, gridOf, type Columns } from "../../data/columns.ts";
import type { Drawn } from "../../data/pair.ts";
import { duration, packetRate, rate, share } from "../../data/quantity.ts";
import { refine } from "../../data/route.ts";
import type { Clock, Figures } from "../../data/window.ts";
import { clockWords, correctedWords } from "./clock.ts";

interface ChartsProps {
  drawn: Drawn;
  source: string;
  destination: string;
  show: "out" | "back";
  log: boolean;
  clock: Clock;
  marks: Mark[];
  onRange: (range: Range) => void;
  /** Why a direction is empty, if known. */
  missing: { out?: string; back?: string };
  /** Charts below the delays, on the same time axis. */
  children?: ComponentChildren;
}

const group = "pair";

/** Charts shows delay, loss, delay variation, throughput and the heat map. */
export function Charts(props: ChartsProps) {
  const { drawn, source, destination, clock, marks, onRange } = props;
  const times = useMemo(() => gridOf(drawn.from, drawn.to, drawn.step), [drawn]);
  const out = useMemo(() => columnsOf(drawn.out, times, drawn.step, drawn.now), [drawn]);
  const back = useMemo(() => columnsOf(drawn.back, times, drawn.step, drawn.now), [drawn]);
  const shared = { times, range: { from: drawn.from, to: drawn.to }, marks, onRange, group };
  const names: [string, string] = [`${source} → ${destination}`, `${destination} → ${source}`];
  const both = (of: (c: Columns) => Float64Array, steps = false): Line[] => [
    { label: names[0], values: of(out), colour: "--out", steps },
    { label: names[1], values: of(back), colour: "--back", steps, dash: [5, 3] },
  ];
  return (
    <div class="pair-charts">
      <Delay {...shared} title={`${delayTitle(clock)} ${names[0]}`} clock={clock} columns={out} windows={drawn.out} colour="--out" log={props.log} empty={props.missing.out} />
      <Delay {...shared} title={`${delayTitle(clock)} ${names[1]}`} clock={clock} columns={back} windows={drawn.back} colour="--back" log={props.log} empty={props.missing.back} />
      {props.children}
      <section class="panel"><TimeChart {...shared} title="Loss" lines={both((c) => c.loss, true)} format={share} atLeast={0.01} height={170} /></section>
      <section class="panel"><TimeChart {...shared} title="Delay variation (IPDV, p90)" lines={both((c) => c.ipdv)} format={duration} height={170} /></section>
      <section class="panel"><TimeChart {...shared} title="Throughput" lines={both((c) => c.rate)} format={rate} height={200} /></section>
      <section class="panel"><TimeChart {...shared} title="Packets" lines={both((c) => c.packets)} format={packetRate} height={200} /></section>
      <Heat {...props} names={names} />
    </div>
  );
}

const delayTitle = (clock: Clock): string => (clock === "corrected" ? "Corrected delay" : "Delay");

interface DelayProps {
  title: string;
  times: number[];
  range: Range;
  marks: Mark[];
  onRange: (range: Range) => void;
  group: string;
  clock: Clock;
  columns: Columns;
  windows: readonly Figures[];
  colour: string;
  log: boolean;
  empty?: string;
}

/** Median, percentiles as areas, and the clock error around the median. */
function Delay({ columns, windows, clock: shown, colour, log, empty, ...rest }: DelayProps) {
  const clock = useMemo(() => (shown === "corrected" ? correctedWords(windows) : clockWords(windows)), [windows, shown]);
  const lines: Line[] = [
    { label: shown === "corrected" ? "median, corrected" : "median", values: columns.p50, colour, width: 2 },
    { label: "p90", values: columns.p90, colour, hidden: true },
    { label: "p99", values: columns.p99, colour, hidden: true },
    { label: "min", values: columns.min, colour: "--line-strong", hidden: true },
    { label: "max", values: columns.max, colour: "--line-strong", hidden: true },
  ];
  const bands: Band[] = [
    { low: 0, high: 1, colour, opacity: 0.32 },
    { low: 1, high: 2, colour, opacity: 0.16 },
  ];
  if (clock?.drawn) {
    lines.push({ label: shown === "corrected" ? "offset −" : "clock −", values: columns.low, colour: "--clock", hidden: true }, { label: shown === "corrected" ? "offset +" : "clock +", values: columns.high, colour: "--clock", hidden: true });
    bands.unshift({ low: 5, high: 6, colour: "--clock", opacity: 0.25 });
  }
  const below = windows.some((f) => f.delay.p50 < 0); // neither a logarithmic axis nor one from zero
  return (
    <section class="panel">
      <TimeChart {...rest} lines={lines} bands={bands} format={duration} height={240} scale={below ? "fit" : log ? "log" : "zero"} atLeast={windows.length > 0 ? undefined : 1e6} empty={empty} />
      <div class="pair-under">
        <p class={`pair-clock small ${clock?.level ?? ""}`}>{clock?.text}</p>
        {!below && <button type="button" class="quiet pair-scale small" aria-pressed={log} title="Logarithmic delay axis" onClick={() => refine({ axis: log ? undefined : "log" })}>Log axis</button>}
      </div>
    </section>
  );
}

/** The distribution of delay over time. */
function Heat({ drawn, show, clock, marks, onRange, names, missing }: ChartsProps & { names: [string, string] }) {
  const windows = show === "out" ? drawn.out : drawn.back;
  const held = useMemo(() => windows.filter((f) => f.delay.histogram.bounds.length > 0), [windows]);
  const times = useMemo(() => held.map((f) => f.start), [held]);
  const buckets = useMemo(() => held.map((f) => f.delay.histogram), [held]);
  return (
    <section class="panel pair-heat">
      <DirectionSwitch show={show} names={names} label="Direction of heat map and flows" />
      <HeatMap title={`${clock === "corrected" ? "Corrected latency" : "Latency"} heat map ${names[show === "out" ? 0 : 1]}`} times={times} buckets={buckets} step={drawn.step} format={duration} marks={marks}
        range={{ from: drawn.from, to: drawn.to }} onRange={onRange} group={group} height={240} empty={missing[show]} />
    </section>
  );
}

/** DirectionSwitch selects one of the two directions. */
export function DirectionSwitch({ show, names, label }: { show: "out" | "back"; names: [string, string]; label: string }) {
  return (
    <div class="pair-switch" role="group" aria-label={label}>
      <button type="button" aria-pressed={show === "out"} onClick={() => refine({ show: undefined })}>{names[0]}</button>
      <button type="button" aria-pressed={show === "back"} onClick={() => refine({ show: "back" })}>{names[1]}</button>
    </div>
  );
}
