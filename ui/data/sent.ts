// What the sender did from one host to another: its figures by traffic, on a grid of times.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { SeriesResponse } from "../gen/data_pb.ts";
import type { Session } from "../gen/session_pb.ts";
import { dataClient } from "./client.ts";

/** Whether a session sends packets. */
export const sends = (s: Session): boolean => (s.spec?.points ?? []).some((p) => p.name === "send");

const columns = [
  { column: "lateness_p50_ns", function: "avg", weight: "sent" }, { column: "lateness_p99_ns", function: "avg", weight: "sent" },
  { column: "rate_bits_per_second", function: "avg", weight: "sent" }, { column: "asked_bits_per_second", function: "avg", weight: "sent" },
  { column: "sent", function: "sum" }, { column: "late", function: "sum" }, { column: "failed", function: "sum" }, { column: "late_dropped", function: "sum" },
  { column: "cancelled", function: "sum" },
];
const linesMost = 12;

/** Queries the rows of the sender on one host to another. */
export function askSent(source: string, destination: string, session: string, from: number, to: number, step: number, signal: AbortSignal): Promise<SeriesResponse> {
  return dataClient.series({
    stream: "send", where: { agent: source, destination, ...(session && { session }) }, by: ["session", "traffic", "mechanism"], aggregates: columns,
    from: timestampFromMs(from), to: timestampFromMs(to), points: Math.max(1, Math.ceil((to - from) / step)), lines: linesMost,
  }, { signal });
}

/** One traffic of one session in the queried range. */
export interface Sent {
  session: string;
  traffic: string;
  mechanism: string;
  /** Lateness by time, ns; NaN: nothing was sent. */
  p50: Float64Array;
  p99: Float64Array;
  /** Of the whole range: means weighted by packets, NaN where unknown, and counts. */
  lateness: { p50: number; p99: number };
  rate: number;
  asked: number;
  sent: number;
  late: number;
  failed: number;
  /** Dropped because they were late, or cancelled. */
  unsent: number;
}

/** The traffics of an answer on a grid of times with this step, the traffic with most packets first. */
export function sentOf(answer: SeriesResponse, times: readonly number[], step: number): Sent[] {
  return answer.lines.map(({ labels, timesMs, values }): Sent => {
    const [p50s, p99s, rates, asked, sent, late, failed, dropped, cancelled] = columns.map((_, i) => values[i]?.values ?? []);
    const place = (list: readonly number[] = []): Float64Array => {
      const grid = new Float64Array(times.length).fill(NaN);
      timesMs.forEach((t, i) => {
        const at = Math.floor((Number(t) - (times[0] ?? 0)) / step);
        if (at >= 0 && at < grid.length) grid[at] = list[i] ?? NaN;
      });
      return grid;
    };
    const total = (list: readonly number[] = []): number => list.reduce((n, v) => n + (Number.isNaN(v) ? 0 : v), 0);
    const mean = (list: readonly number[] = []): number => {
      let [sum, weight] = [0, 0];
      list.forEach((v, i) => {
        const w = sent?.[i] ?? 0;
        if (!Number.isNaN(v) && w > 0) [sum, weight] = [sum + v * w, weight + w];
      });
      return weight > 0 ? sum / weight : NaN;
    };
    return {
      session: labels.session ?? "", traffic: labels.traffic ?? "", mechanism: labels.mechanism ?? "",
      p50: place(p50s), p99: place(p99s), lateness: { p50: mean(p50s), p99: mean(p99s) }, rate: mean(rates), asked: mean(asked),
      sent: total(sent), late: total(late), failed: total(failed), unsent: total(dropped) + total(cancelled),
    };
  }).sort((a, b) => b.sent - a.sent);
}
