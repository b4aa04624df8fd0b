// The page that study/bench/page/run.mjs controls: live charts of generated figures.
import { h, render } from "preact";
import "uplot/dist/uPlot.min.css";
import "../../../ui/style/colour.css";
import "../../../ui/style/page.css";
import "../../../ui/style/part.css";
import type { Line, TimeChartProps } from "../../../ui/chart/plot.ts";
import { TimeChart } from "../../../ui/chart/time.tsx";
import { duration } from "../../../ui/data/quantity.ts";

interface Load {
  lines: number;
  points: number;
  band: boolean;
}

// A fixed end, so that all runs draw the same: 2026-11-21 08:00 UTC.
const begin = 1795248000e3;
let seed = 1;
const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647;
const value = (k: number, t: number): number =>
  (1 + k / 8) * 1e6 + 3e5 * Math.sin(t / (20e3 + 1e3 * k)) + 2e5 * random() + (random() < 0.002 ? 2e6 * random() : 0);
const colours = ["--out", "--back", "--clock", "--good", "--warning", "--bad", "--busy", "--idle"];

let load: Load;
let times: Float64Array;
let values: Float64Array[];

/** Generates the figures in the form of the server. */
function prepare(wanted: Load): void {
  load = wanted;
  seed = 1;
  times = Float64Array.from({ length: load.points }, (_, i) => begin + i * 1000);
  values = Array.from({ length: load.lines }, (_, k) => times.map((t) => value(k, t)));
}

function show(): void {
  const lines: Line[] = values.map((v, k) => ({ label: `host-${k} to sink`, values: v, colour: colours[k % colours.length] ?? "--out" }));
  const props: TimeChartProps = {
    title: "One-way delay", times, lines, format: duration, height: 420,
    range: { from: (times[0] ?? 0) + 1000, to: (times[times.length - 1] ?? 0) + 1000 },
    ...(load.band ? { bands: [{ low: 0, high: 2, colour: "--out", opacity: 0.15 }] } : {}),
  };
  const page = document.getElementById("page");
  if (page) render(h(TimeChart, props), page);
}

/** Shows the prepared figures; resolves with ms from the data's arrival until the browser has painted. */
function first(): Promise<number> {
  const start = performance.now();
  show();
  return painted().then(() => performance.now() - start);
}

/** Adds one second: each line gets one new value and loses the oldest, the range slides. A peak extends the axis of values. */
function step(peak = 0): void {
  performance.mark("bench-data");
  const t = (times[times.length - 1] ?? 0) + 1000;
  times = slid(times, t);
  values = values.map((v, k) => slid(v, k === 0 && peak > 0 ? peak : value(k, t)));
  performance.mark("bench-step");
  show();
}

function slid(old: Float64Array, next: number): Float64Array {
  const made = new Float64Array(old.length);
  made.set(old.subarray(1));
  made[old.length - 1] = next;
  return made;
}

// A frame has been painted when a task after its animation frame runs.
function painted(): Promise<void> {
  return new Promise((resolve) => {
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => resolve();
      channel.port2.postMessage(0);
    }));
  });
}

Object.assign(window, { bench: { prepare, first, step, painted } });
