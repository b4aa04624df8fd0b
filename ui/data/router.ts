// Inside routers: which ones a pair's packets pass, and where packets wait in them.
import type { Agent } from "../gen/agent_pb.ts";
import type { Session } from "../gen/session_pb.ts";
import type { PacketCount, Path, QueueSizes, QueueWindow, StageWindow } from "../gen/topology_pb.ts";
import { selected } from "./selector.ts";

/** A router that a pair's packets pass. */
interface Passed {
  agent: string;
  /** Interface by which packets of a direction come in; undefined: no path shows it. */
  out?: string;
  back?: string;
}

const bare = (prefix: string): string => prefix.split("/", 1)[0] ?? "";

/** Interface of an agent that answered as a hop of a path: the one by which the traced packets came in. */
function entrance(agent: Agent, paths: readonly Path[]): string | undefined {
  const hops = new Set(paths.flatMap((p) => p.hops.map((h) => h.address)));
  return agent.interfaces.find((i) => i.addresses.some((a) => hops.has(bare(a))))?.name;
}

/**
 * The profiled routers of a pair: those that its sessions name, and profiled ones on its paths. A named
 * router that is not on the path is left out if another named one is.
 */
export function routersOf(pair: { source: string; destination: string }, sessions: readonly Session[], agents: readonly Agent[], paths: readonly Path[]): Passed[] {
  const of = (source: string, destination: string): Path[] => paths.filter((p) => p.source === source && p.destination === destination);
  const [there, home] = [of(pair.source, pair.destination), of(pair.destination, pair.source)];
  const named = new Set(sessions.flatMap((s) => s.spec?.routers ?? []).flatMap((s) => selected(s, agents).map((a) => a.name)));
  const all = agents.map((a): Passed & { named: boolean; profiled: boolean } => ({
    agent: a.name, out: entrance(a, there), back: entrance(a, home), named: named.has(a.name), profiled: a.tasks.some((t) => t.role === "router"),
  })).filter((r) => r.agent !== pair.source && r.agent !== pair.destination);
  const passed = (r: Passed): boolean => r.out !== undefined || r.back !== undefined;
  const known = all.some((r) => r.named && passed(r));
  return all.filter((r) => (passed(r) ? r.named || r.profiled : r.named && !known)).map(({ agent, out, back }) => ({ agent, out, back }));
}

/** Stages, in the order in which a packet meets them. */
export const stages = ["input_queuing", "processing", "output_queuing"] as const;
export type Stage = (typeof stages)[number];

/** Quantiles of a stage on a grid of windows, ns; NaN where there was no packet. */
interface StageColumns {
  p50: Float64Array;
  p99: Float64Array;
}

/** Packets waiting in a queue on a grid of windows. */
interface QueueColumns {
  interface: string;
  side: string;
  mean: Float64Array;
  kernel: Float64Array;
}

const empty = (times: readonly number[]): Float64Array => new Float64Array(times.length).fill(NaN);

/** Place of a window on a grid; -1: outside. */
const placeOn = (times: readonly number[], start: bigint, step: number): number => {
  const at = Math.round((Number(start) - (times[0] ?? 0)) / step);
  return at < times.length ? at : -1;
};

/** Delays of each stage on a grid of windows. */
export function stageColumns(windows: readonly StageWindow[], times: readonly number[], step: number): Map<string, StageColumns> {
  const all = new Map<string, StageColumns>(stages.map((stage) => [stage, { p50: empty(times), p99: empty(times) }]));
  for (const w of windows) {
    const [at, columns] = [placeOn(times, w.startMs, step), all.get(w.stage)];
    if (at < 0 || !columns || !w.delay) continue;
    columns.p50[at] = w.delay.p50Ns;
    columns.p99[at] = w.delay.p99Ns;
  }
  return all;
}

/** Depths of queues on a grid of windows, a line for each interface and side. */
export function queueColumns(windows: readonly QueueWindow[], times: readonly number[], step: number): QueueColumns[] {
  const lines = new Map<string, QueueColumns>();
  for (const w of windows) {
    const at = placeOn(times, w.startMs, step);
    if (at < 0) continue;
    const key = `${w.side} ${w.interface}`;
    let line = lines.get(key);
    if (!line) lines.set(key, (line = { interface: w.interface, side: w.side, mean: empty(times), kernel: empty(times) }));
    line.mean[at] = w.meanDepth;
    line.kernel[at] = w.kernelDepth;
  }
  return [...lines.entries()].sort(([a], [b]) => a.localeCompare(b)).map(([, line]) => line);
}

/** Share of each stage in the time that packets spent inside the router; empty without a packet. */
export function stageShares(windows: readonly StageWindow[]): Map<Stage, number> {
  const sums = new Map<string, number>(stages.map((stage) => [stage, 0]));
  for (const w of windows) {
    const sum = sums.get(w.stage);
    if (sum !== undefined && w.delay) sums.set(w.stage, sum + Number(w.delay.count) * w.delay.meanNs);
  }
  const all = [...sums.values()].reduce((a, b) => a + b, 0);
  return new Map(all > 0 ? stages.map((stage) => [stage, (sums.get(stage) ?? 0) / all]) : []);
}

/** What a queue's distributions say. */
interface QueueSummary {
  interface: string;
  side: string;
  /** Share of departing packets that left others waiting. */
  waiting: number;
  /** 99th percentile of the length that departing packets found, themselves included. */
  p99: number;
  /** Share of inter-departure times in which more than one packet arrived. */
  bursts: number;
}

const sumOf = (counts: readonly PacketCount[], from = 0): number =>
  counts.reduce((sum, c) => sum + (c.packets >= from ? Number(c.count) : 0), 0);

/** The least number of packets that a part of all counts does not exceed. */
function quantile(counts: readonly PacketCount[], part: number): number {
  let left = part * sumOf(counts);
  return counts.find((c) => (left -= Number(c.count)) <= 0)?.packets ?? NaN;
}

/** A summary of each queue with departures. */
export const queueSummaries = (queues: readonly QueueSizes[]): QueueSummary[] =>
  queues.filter((q) => sumOf(q.sizes) > 0).map((q) => ({
    interface: q.interface, side: q.side, waiting: sumOf(q.sizes, 2) / sumOf(q.sizes), p99: quantile(q.sizes, 0.99),
    bursts: sumOf(q.arrivals, 2) / Math.max(sumOf(q.arrivals), 1),
  }));
