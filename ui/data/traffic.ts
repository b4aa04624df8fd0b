// Traffic matrices: packets and bytes between hosts or groups of them.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { TrafficMatrixResponse, TrafficVolume } from "../gen/flow_pb.ts";
import { flowClient } from "./client.ts";
import { csv } from "./csv.ts";
import { bytes, count } from "./quantity.ts";
import { resource, type Resource } from "./resource.ts";
import type { Span } from "./span.ts";

/** What the rows of a matrix put together. */
export const groupings = ["pair", "label", "prefix", "host", "host-port", "flow"] as const;
export type Grouping = (typeof groupings)[number];

/** What cells show. */
export type Amount = "bytes" | "packets";

/** What is asked. */
export interface TrafficQuestion {
  by: Grouping;
  /** Key of the label; empty: the key of the label of sites. */
  label: string;
  /** Lengths of prefixes; 0: the default. */
  prefix4: number;
  prefix6: number;
  protocols: boolean;
  amount: Amount;
  session: string;
  span: Span;
}

const most = 5000; // volumes
const liveMs = 10_000;
const pastMs = 3600_000;

/** A resource of a matrix. */
export function trafficOf(q: TrafficQuestion): Resource<TrafficMatrixResponse> {
  return resource(q.span.live ? liveMs : pastMs, (signal) => {
    const now = Date.now();
    const [from, to] = q.span.live ? [now - q.span.length, now] : [q.span.from, q.span.to];
    return flowClient.trafficMatrix({
      selection: { session: q.session }, from: timestampFromMs(from), to: timestampFromMs(to), granularity: q.by, label: q.label,
      prefixIpv4: q.prefix4, prefixIpv6: q.prefix6, byProtocol: q.protocols, order: q.amount, limit: most,
    }, { signal });
  });
}

/** The estimate of a volume, and half of its 95 % interval. */
export const estimate = (v: TrafficVolume, amount: Amount): { value: number; error: number } =>
  amount === "bytes" ? { value: v.estimatedBytes, error: v.bytesError } : { value: v.estimatedPackets, error: v.packetsError };

/** An amount as text. */
export const amountText = (value: number, amount: Amount): string => (amount === "bytes" ? bytes(value) : count(Math.round(value)));

/** An estimate with its error, such as "2,000 ± 263". */
export function estimateText(v: TrafficVolume, amount: Amount): string {
  const { value, error } = estimate(v, amount);
  const text = amountText(value, amount);
  if (v.scaling === "lower_bound") return `at least ${text}`;
  return error > 0 ? `${text} ± ${amountText(error, amount)}` : text;
}

/** How the estimates of a volume relate to what was counted. */
export const scalingWords: Record<string, { short: string; long: string }> = {
  measured: { short: "counted", long: "All packets were counted." },
  scaled: { short: "scaled", long: "Sessions sample one packet in N: figures are N times the counts, ± half of the 95 % interval that sampling causes; for bytes at most." },
  lower_bound: { short: "lower bound", long: "Of some packets it is not known how many were left out: sampling with a minimum gap, by sessions that overlap, or by a deleted session. These are counted as measured." },
};

/** One cell of the matrix: the volumes of all protocols from one to another. */
export interface TrafficCell {
  value: number;
  error: number;
  bounded: boolean;
  packets: bigint;
}

/** A matrix of the largest senders and receivers. */
export interface Grid {
  rows: string[];
  columns: string[];
  cells: Map<string, TrafficCell>;
  /** Senders and receivers that did not fit. */
  left: number;
}

const key = (row: number, column: number): string => `${row} ${column}`;

/** The cell of a grid, if there is traffic. */
export const cellAt = (grid: Grid, row: number, column: number): TrafficCell | undefined => grid.cells.get(key(row, column));

/** Arranges volumes as a matrix of at most so many rows and columns, the largest ones by name. */
export function gridOf(volumes: readonly TrafficVolume[], amount: Amount, side: number): Grid {
  const sums = new Map<string, number>();
  for (const v of volumes) for (const name of new Set([v.src, v.dst])) sums.set(name, (sums.get(name) ?? 0) + estimate(v, amount).value);
  const largest = new Set([...sums].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).slice(0, side).map(([name]) => name));
  const named = (of: (v: TrafficVolume) => string) => [...new Set(volumes.map(of))].filter((n) => largest.has(n)).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const [rows, columns] = [named((v) => v.src), named((v) => v.dst)];
  const [rowOf, columnOf] = [new Map(rows.map((n, i) => [n, i])), new Map(columns.map((n, i) => [n, i]))];
  const cells = new Map<string, TrafficCell>();
  for (const v of volumes) {
    const [row, column] = [rowOf.get(v.src), columnOf.get(v.dst)];
    if (row === undefined || column === undefined) continue;
    const { value, error } = estimate(v, amount);
    const cell = cells.get(key(row, column)) ?? { value: 0, error: 0, bounded: false, packets: 0n };
    cells.set(key(row, column), { value: cell.value + value, error: Math.hypot(cell.error, error), bounded: cell.bounded || v.scaling === "lower_bound", packets: cell.packets + v.packets });
  }
  return { rows, columns, cells, left: sums.size - largest.size };
}

/** A matrix as CSV. */
export const trafficCsv = (volumes: readonly TrafficVolume[]): string => csv([
  ["source", "destination", "proto", "sport", "dport", "estimated_packets", "packets_error", "estimated_bytes", "bytes_error", "packets", "bytes", "scaling"],
  ...volumes.map((v) => [v.src, v.dst, v.proto, v.sport || "", v.dport || "", v.estimatedPackets, v.packetsError, v.estimatedBytes, v.bytesError, String(v.packets), String(v.bytes), v.scaling]),
]);
