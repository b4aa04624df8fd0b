// Paths as they were: traces of the past, and what differs between two of them.
import type { Row, Value } from "../gen/data_pb.ts";
import { dataClient } from "./client.ts";

/** One hop of a trace. */
export interface Step {
  ttl: number;
  /** Empty: nobody answered. */
  address: string;
  /** ns; undefined without an answer. */
  rtt?: number;
  sent: number;
  answers: number;
}

/** One trace of a path. */
export interface Trace {
  /** ms since 1970. */
  time: number;
  reached: boolean;
  steps: Step[];
}

/** What makes two traces traces of one path. */
export interface PathKey {
  source: string;
  destination: string;
  address: string;
  protocol: string;
}

/** Text as a literal of SQL: a quote is doubled, and what no name has is refused. */
export function literal(text: string): string {
  if (/[\\\p{Cc}]/u.test(text)) throw new Error(`${JSON.stringify(text)} is not a name that can be asked for.`);
  return `'${text.replaceAll("'", "''")}'`;
}

/** The statement that finds the last traces of a path until a time, ms since 1970. */
export function statement(key: PathKey, until: number, traces: number): string {
  const of = Object.entries({ agent: key.source, peer: key.destination, dst: key.address, protocol: key.protocol })
    .map(([column, value]) => `${column} = ${literal(value)}`);
  const time = literal(new Date(until).toISOString().replace("T", " ").replace("Z", ""));
  const where = `${of.join(" AND ")} AND time <= ${time}`;
  return `SELECT time, ttl, address, rtt_ns, sent, answers, reached FROM hops WHERE ${where}
AND time IN (SELECT time FROM hops WHERE ${where} GROUP BY time ORDER BY time DESC LIMIT ${traces}) ORDER BY time, ttl`;
}

const number = (v: Value | undefined): number | undefined => {
  const kind = v?.kind;
  return kind?.case === "int" || kind?.case === "uint" || kind?.case === "time" || kind?.case === "float" ? Number(kind.value) : undefined;
};

/** Puts rows of the statement together to traces, oldest first. */
export function tracesOf(rows: Row[]): Trace[] {
  const traces = new Map<string, Trace>();
  for (const { values: [time, ttl, address, rtt, sent, answers, reached] } of rows) {
    if (time?.kind.case !== "time") continue;
    const key = String(time.kind.value);
    let trace = traces.get(key);
    if (!trace) traces.set(key, (trace = { time: Number(time.kind.value / 1_000_000n), reached: false, steps: [] }));
    trace.reached ||= reached?.kind.case === "bool" && reached.kind.value;
    const who = address?.kind.case === "text" ? address.kind.value : "";
    trace.steps.push({ ttl: number(ttl) ?? 0, address: who, rtt: who ? number(rtt) : undefined, sent: number(sent) ?? 0, answers: number(answers) ?? 0 });
  }
  return [...traces.values()];
}

/** The last traces of a path until a time, oldest first. */
export async function pastTraces(key: PathKey, until: number, signal?: AbortSignal): Promise<Trace[]> {
  const rows: Row[] = [];
  for await (const part of dataClient.query({ sql: statement(key, until, 12), limit: 4000n }, { signal })) rows.push(...part.rows);
  return tracesOf(rows);
}

/** The part of a trace that says something: silence at the end of one that did not arrive is only patience. */
function certain(t: Pick<Trace, "steps" | "reached">): Step[] {
  let end = t.steps.length;
  while (!t.reached && end > 0 && !t.steps[end - 1]?.address) end--;
  return t.steps.slice(0, end);
}

/** Reports whether two traces may be of one route: a silent hop agrees with all, as on the server. */
export function agrees(a: Pick<Trace, "steps" | "reached">, b: Pick<Trace, "steps" | "reached">, name: (address: string) => string = (x) => x): boolean {
  const [x, y] = [certain(a), certain(b)];
  if ((a.reached && y.length > x.length) || (b.reached && x.length > y.length)) return false;
  return x.every((s, i) => {
    const other = y[i];
    return !other || !s.address || !other.address || name(s.address) === name(other.address);
  });
}

/** The route before the last change, and the one after it. */
export function aroundChange(traces: Trace[], name?: (address: string) => string): { before?: Trace; after?: Trace } {
  const after = traces.at(-1);
  if (!after) return {};
  return { after, before: traces.findLast((t) => !agrees(t, after, name)) };
}

/** A line of two routes side by side. */
export interface Line {
  was?: Step;
  is?: Step;
  /** "same" also where one of both was silent, for that is no difference that is known. */
  kind: "same" | "gone" | "new";
}

/** Puts two routes side by side, so that as many hops as can be stand beside themselves. */
export function compare(was: Step[], is: Step[], name: (address: string) => string = (x) => x): Line[] {
  // Length of the best alignment of what is left, as for the longest common subsequence.
  const fit = (a?: Step, b?: Step): number => {
    if (!a || !b) return 0;
    if (!a.address || !b.address) return a.address === b.address || a.ttl === b.ttl ? 1 : 0;
    return name(a.address) === name(b.address) ? 3 : 0;
  };
  const best: number[][] = Array.from({ length: was.length + 1 }, () => new Array<number>(is.length + 1).fill(0));
  const at = (i: number, j: number): number => best[i]?.[j] ?? 0;
  for (let i = was.length - 1; i >= 0; i--) {
    for (let j = is.length - 1; j >= 0; j--) {
      const both = fit(was[i], is[j]);
      const row = best[i];
      if (row) row[j] = Math.max(at(i + 1, j), at(i, j + 1), both ? both + at(i + 1, j + 1) : 0);
    }
  }
  const lines: Line[] = [];
  for (let i = 0, j = 0; i < was.length || j < is.length;) {
    const both = fit(was[i], is[j]);
    if (both && at(i, j) === both + at(i + 1, j + 1)) lines.push({ was: was[i++], is: is[j++], kind: "same" });
    else if (j >= is.length || (i < was.length && at(i + 1, j) >= at(i, j + 1))) lines.push({ was: was[i++], kind: "gone" });
    else lines.push({ is: is[j++], kind: "new" });
  }
  return lines;
}
