// Inside routers: which ones a pair's packets pass, and where in them packets wait.
import type { Agent } from "../gen/agent_pb.ts";
import type { Row, Value } from "../gen/data_pb.ts";
import type { Session } from "../gen/session_pb.ts";
import type { Path } from "../gen/topology_pb.ts";
import { dataClient } from "./client.ts";
import { selected } from "./selector.ts";
import { literal } from "./trace.ts";
import { quantile } from "./window.ts";

/** A router that a pair's packets pass. */
export interface Passed {
  agent: string;
  /** Interface by which packets of a direction come in, where a path tells. */
  out?: string;
  back?: string;
}

const roleRouter = "router";
const bare = (prefix: string): string => prefix.split("/", 1)[0] ?? "";

/** Interface of an agent that answered as a hop of a path: the one that the traced packets came in by. */
function entrance(agent: Agent, paths: readonly Path[]): string | undefined {
  const hops = new Set(paths.flatMap((p) => p.hops.map((h) => h.address)));
  return agent.interfaces.find((i) => i.addresses.some((a) => hops.has(bare(a))))?.name;
}

/**
 * The profiled routers of a pair: those that its sessions name, and those on its paths that are profiled
 * for whatever reason. One that is named and not on the path does not count where the path passes another.
 */
export function routersOf(pair: { source: string; destination: string }, sessions: readonly Session[], agents: readonly Agent[], paths: readonly Path[]): Passed[] {
  const of = (source: string, destination: string): Path[] => paths.filter((p) => p.source === source && p.destination === destination);
  const [there, home] = [of(pair.source, pair.destination), of(pair.destination, pair.source)];
  const named = new Set(sessions.flatMap((s) => s.spec?.routers ?? []).flatMap((s) => selected(s, agents).map((a) => a.name)));
  const all = agents.map((a): Passed & { named: boolean; profiled: boolean } => ({
    agent: a.name, out: entrance(a, there), back: entrance(a, home), named: named.has(a.name), profiled: a.tasks.some((t) => t.role === roleRouter),
  })).filter((r) => r.agent !== pair.source && r.agent !== pair.destination);
  const passed = (r: Passed): boolean => r.out !== undefined || r.back !== undefined;
  const known = all.some((r) => r.named && passed(r));
  return all.filter((r) => (passed(r) ? r.named || r.profiled : r.named && !known)).map(({ agent, out, back }) => ({ agent, out, back }));
}

/** Stages, in the order in which a packet meets them. */
export const stages = ["input_queuing", "processing", "output_queuing"] as const;
export type Stage = (typeof stages)[number];

/** Times of one stage in one window, of packets from one interface to another. */
export interface Waited {
  agent: string;
  session: string;
  input: string;
  output: string;
  stage: Stage;
  /** Start of the window, ms since 1970. */
  start: number;
  bounds: number[];
  counts: number[];
}

/** A queue in one window. */
export interface Queued {
  agent: string;
  session: string;
  interface: string;
  side: "input" | "output";
  start: number;
  mean: number;
  kernel: number;
}

/** A coffee break. */
export interface Break {
  agent: string;
  session: string;
  time: number;
  /** ns. */
  length: number;
  cause: string;
  task: string;
  depth: number;
}

/** What is known of some routers in a range of time. */
export interface Inside {
  /** Length of a window, ms. */
  step: number;
  /** Times are of one in so many rows. */
  sampled: number;
  waited: Waited[];
  queued: Queued[];
  breaks: Break[];
}

export interface Question {
  agents: readonly string[];
  /** Sessions whose rows count. */
  sessions: readonly string[];
  from: number;
  to: number;
  step: number;
}

const rowsMost = 3600; // seconds of rows whose histograms are added up
const breaksMost = 200;
const least = 1000; // ms: routers are read once a second

const among = (column: string, names: readonly string[]): string => `${column} IN (${names.map(literal).join(", ")})`;

/** The statements that answer a question: times, queues, breaks. Rows belong to the window in which their middle lies. */
export function statements(q: Question): { waited: string; queued: string; breaks: string; step: number; sampled: number } {
  const step = Math.max(q.step, least);
  const sampled = Math.max(1, Math.ceil((q.to - q.from) / 1000 / rowsMost));
  const time = (ms: number): string => literal(new Date(ms).toISOString().replace("T", " ").replace("Z", ""));
  const where = `${among("agent", q.agents)} AND ${among("session", ["", ...q.sessions])} AND time > ${time(q.from - step)} AND time <= ${time(q.to + step)}`;
  const start = `(epoch_ns(time) - interval_ns // 2) // ${step * 1e6} * ${step}`;
  const some = sampled > 1 ? ` AND epoch_ns(time) // 1000000000 % ${sampled} = 0` : "";
  const keys = "agent, session, input, output, stage, start";
  return {
    step, sampled,
    waited: `SELECT ${keys}, list(bound ORDER BY bound) AS bounds, list(n ORDER BY bound) AS counts FROM (
SELECT ${keys}, bound, sum(n)::BIGINT AS n FROM (
SELECT agent, session, input, output, stage, ${start} AS start, unnest(delay_bounds_ns) AS bound, unnest(delay_counts) AS n
FROM router WHERE ${where} AND ${among("stage", stages)}${some}) GROUP BY ALL) GROUP BY ${keys} ORDER BY start`,
    queued: `SELECT agent, session, interface, side, ${start} AS start, sum(depth_mean * interval_ns) / sum(interval_ns) AS mean, max(kernel_depth) AS kernel
FROM router_queues WHERE ${where} AND interval_ns > 0 GROUP BY ALL ORDER BY start`,
    breaks: `SELECT agent, session, epoch_ns(time) // 1000000 AS start, length_ns, cause, task, depth
FROM router_breaks WHERE ${where} ORDER BY length_ns DESC LIMIT ${breaksMost}`,
  };
}

function number(v: Value | undefined): number {
  const kind = v?.kind;
  return kind?.case === "int" || kind?.case === "uint" || kind?.case === "float" || kind?.case === "time" ? Number(kind.value) : NaN;
}

const text = (v: Value | undefined): string => (v?.kind.case === "text" ? v.kind.value : "");
const list = (v: Value | undefined): number[] => (v?.kind.case === "list" ? v.kind.value.values.map(Number) : []);

/** Rows of the first statement. */
export const waitedOf = (rows: readonly Row[]): Waited[] => rows.map(({ values: [agent, session, input, output, stage, start, bounds, counts] }) => ({
  agent: text(agent), session: text(session), input: text(input), output: text(output), stage: text(stage) as Stage, start: number(start), bounds: list(bounds), counts: list(counts),
}));

/** Rows of the second one. */
export const queuedOf = (rows: readonly Row[]): Queued[] => rows.map(({ values: [agent, session, name, side, start, mean, kernel] }) => ({
  agent: text(agent), session: text(session), interface: text(name), side: text(side) === "input" ? "input" : "output", start: number(start), mean: number(mean), kernel: number(kernel),
}));

/** Rows of the third one, by time. */
export const breaksOf = (rows: readonly Row[]): Break[] => rows.map(({ values: [agent, session, time, length, cause, task, depth] }) => ({
  agent: text(agent), session: text(session), time: number(time), length: number(length), cause: text(cause), task: text(task), depth: number(depth),
})).sort((a, b) => a.time - b.time);

/** Asks what routers did in a range of time. */
export async function inside(q: Question, signal?: AbortSignal): Promise<Inside> {
  const s = statements(q);
  const ask = async (sql: string): Promise<Row[]> => {
    const rows: Row[] = [];
    for await (const part of dataClient.query({ sql, limit: 100_000n }, { signal })) rows.push(...part.rows);
    return rows;
  };
  // One after the other: the server answers few such questions at once, and others ask too.
  return { step: s.step, sampled: s.sampled, waited: waitedOf(await ask(s.waited)), queued: queuedOf(await ask(s.queued)), breaks: breaksOf(await ask(s.breaks)) };
}

/** The session whose rows of a router are shown: the first that has some, else the router's own. */
export function chosenSession(rows: readonly Waited[], agent: string, sessions: readonly string[]): string {
  const there = new Set(rows.filter((r) => r.agent === agent).map((r) => r.session));
  return sessions.find((s) => there.has(s)) ?? "";
}

/** Quantiles of a stage on a grid of windows; NaN where no packet was. */
export interface StageColumns {
  p50: Float64Array;
  p99: Float64Array;
}

/** Adds rows up in windows, stage by stage: quantiles of several pairs of interfaces come from their histograms. */
export function stageColumns(rows: readonly Waited[], times: readonly number[], step: number): Record<Stage, StageColumns> {
  const empty = (): StageColumns => ({ p50: new Float64Array(times.length).fill(NaN), p99: new Float64Array(times.length).fill(NaN) });
  const all: Record<Stage, StageColumns> = { input_queuing: empty(), processing: empty(), output_queuing: empty() };
  const sums = new Map<string, { stage: Stage; at: number; buckets: Map<number, number> }>();
  for (const r of rows) {
    const at = Math.round((r.start - (times[0] ?? 0)) / step);
    if (at < 0 || at >= times.length || !(r.stage in all)) continue;
    const key = `${r.stage} ${at}`;
    let sum = sums.get(key);
    if (!sum) sums.set(key, (sum = { stage: r.stage, at, buckets: new Map() }));
    for (const [i, bound] of r.bounds.entries()) sum.buckets.set(bound, (sum.buckets.get(bound) ?? 0) + (r.counts[i] ?? 0));
  }
  for (const { stage, at, buckets } of sums.values()) {
    const bounds = [...buckets.keys()].sort((a, b) => a - b);
    const counts = bounds.map((b) => buckets.get(b) ?? 0);
    all[stage].p50[at] = quantile(bounds, counts, 0.5);
    all[stage].p99[at] = quantile(bounds, counts, 0.99);
  }
  return all;
}

/** Mean depth of queues on a grid, a line for each interface and side. */
export function queueColumns(rows: readonly Queued[], times: readonly number[], step: number): { interface: string; side: Queued["side"]; mean: Float64Array; kernel: Float64Array }[] {
  const lines = new Map<string, { interface: string; side: Queued["side"]; mean: Float64Array; kernel: Float64Array }>();
  for (const r of rows) {
    const at = Math.round((r.start - (times[0] ?? 0)) / step);
    if (at < 0 || at >= times.length) continue;
    const key = `${r.side} ${r.interface}`;
    let line = lines.get(key);
    if (!line) {
      line = { interface: r.interface, side: r.side, mean: new Float64Array(times.length).fill(NaN), kernel: new Float64Array(times.length).fill(NaN) };
      lines.set(key, line);
    }
    line.mean[at] = r.mean;
    line.kernel[at] = r.kernel;
  }
  return [...lines.entries()].sort(([a], [b]) => a.localeCompare(b)).map(([, line]) => line);
}
