// CSV export.
import type { Flow, Pod } from "../gen/flow_pb.ts";
import { millis } from "./time.ts";
import { figuresOf, type Corrected, type Figures, type Spread } from "./window.ts";

type Cell = string | number | undefined;

/** RFC 4180 text; missing values are empty. */
export function csv(rows: Iterable<readonly Cell[]>): string {
  let text = "";
  for (const row of rows) text += row.map(cell).join(",") + "\r\n";
  return text;
}

function cell(v: Cell): string {
  if (v === undefined || (typeof v === "number" && !Number.isFinite(v))) return "";
  // Spreadsheets must not treat text as a formula.
  const text = typeof v === "string" && /^[=+\-@\t\r]/.test(v) ? `'${v}` : String(v);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const spread = (name: string): string[] => ["count", "min_ns", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"].map((k) => `${name}_${k}`);
const counts = ["packets", "bytes", "expected", "lost", "duplicated", "reordered", "late", "unchecked"];
const measured = [...counts, ...spread("delay"), ...spread("ipdv"), "clock_error_ns"];
const corrected = [...spread("corrected_delay"), "clock_offset_ns", "corrected_error_ns", "clock_skew_ppb", "clock_segment"];

const ofSpread = (s: Spread): number[] => [s.count, s.min, s.mean, s.p50, s.p90, s.p99, s.max];
const ofFigures = (f: Figures): number[] =>
  [f.packets, f.bytes, f.expected, f.lost, f.duplicated, f.reordered, f.late, f.unchecked, ...ofSpread(f.delay), ...ofSpread(f.ipdv), f.clockError];

const ofCorrected = (c: Corrected | undefined): Cell[] =>
  c ? [...ofSpread(c.delay), c.offset, c.bound, c.skew, new Date(c.segment).toISOString()] : corrected.map(() => undefined);

/** The windows of a direction. */
interface WrittenDirection {
  source: string;
  destination: string;
  windows: readonly Figures[];
}

/** Windows of both directions by time, one per row: delays as measured, and corrected ones if they were requested. */
export function windowsCsv(directions: readonly WrittenDirection[], step: number): string {
  const rows = directions.flatMap((d) => d.windows.map((f) => ({ d, f })));
  rows.sort((a, b) => a.f.start - b.f.start);
  const both = rows.some((r) => r.f.corrected);
  return csv([
    ["start", "start_ms", "step_ms", "source", "destination", ...measured, ...(both ? corrected : [])],
    ...rows.map(({ d, f }) => [new Date(f.start).toISOString(), f.start, step, d.source, d.destination, ...ofFigures(f), ...(both ? ofCorrected(f.corrected) : [])]),
  ]);
}

const podOf = (pod: Pod | undefined): Cell => pod && `${pod.namespace}/${pod.name}`;

/** Flows with their sums, one per row. */
export function flowsCsv(flows: readonly Flow[], source: string, destination: string): string {
  return csv([
    ["source", "destination", "src", "dst", "proto", "sport", "dport", "src_pod", "dst_pod", "first", "first_ms", "last", "last_ms", ...measured],
    ...flows.map((flow) => {
      const f = flow.total && figuresOf(flow.total);
      const last = millis(flow.last);
      const ports = [flow.sport || undefined, flow.dport || undefined];
      return [
        source, destination, flow.src, flow.dst, flow.proto, ...ports, podOf(flow.srcPod), podOf(flow.dstPod), f && new Date(f.start).toISOString(), f?.start,
        last === undefined ? undefined : new Date(last).toISOString(), last, ...(f ? ofFigures(f) : []),
      ];
    }),
  ]);
}

/** Downloads a file. */
export function save(name: string, content: Blob | string, type = "text/csv;charset=utf-8"): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(typeof content === "string" ? new Blob([content], { type }) : content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const two = (n: number): string => String(n).padStart(2, "0");
const stamp = (ms: number): string => {
  const d = new Date(ms);
  return `${d.getFullYear()}${two(d.getMonth() + 1)}${two(d.getDate())}-${two(d.getHours())}${two(d.getMinutes())}${two(d.getSeconds())}`;
};

/** A file name with the pair and the range in local time. */
export const fileName = (what: string, source: string, destination: string, from: number, to: number, end: string): string =>
  `pillion-${what}-${source}-${destination}-${stamp(from)}-${stamp(to)}.${end}`;
