// What is typed into the form of a session, and the specification that it means.
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { SamplingSchema, SessionSpecSchema, type Sampling, type SessionSpec } from "../gen/session_pb.ts";
import { cronOf, repeatOf, type Repeat } from "./cron.ts";
import { filterRow, filterText, type FilterRow } from "./filter.ts";
import { parseSpan, spanMessage, spanRule, spanText } from "./length.ts";
import { millis, nanos } from "./time.ts";
import { fromWall, ownZone, wallText } from "./zone.ts";

export type SamplingMode = "all" | "every" | "random";

/** Sampling as typed. */
export interface SamplingDraft {
  mode: SamplingMode;
  n: string;
  /** Least gap between two marked packets; empty: none. */
  gap: string;
}

/** When it runs, as typed. */
export interface WhenDraft {
  kind: "now" | "once" | "repeat";
  /** Start on the wall clock of the zone; for repeat: not before. */
  start: string;
  zone: string;
  repeat: Repeat;
  /** Length of a run; empty: until it is stopped. */
  duration: string;
}

/** The whole form. */
export interface Draft {
  name: string;
  /** The name was typed, not suggested. */
  named: boolean;
  sources: string[];
  destinations: string[];
  both: boolean;
  delay: boolean;
  loss: boolean;
  filters: FilterRow[];
  sampling: SamplingDraft;
  samplingFor: { agent: string; sampling: SamplingDraft }[];
  interval: string;
  granularity: string;
  records: boolean;
  encoding: string;
  family: string;
  device: { agent: string; device: string }[];
  /** Agents whose hosts are profiled as routers. */
  routers: string[];
  lease: string;
  tracing: boolean;
  trace: string;
  when: WhenDraft;
}

/** What is wrong with an answer, by the field of the specification. */
export interface Fault {
  field: string;
  message: string;
}

/** Sampling of all packets. */
export const allPackets = (): SamplingDraft => ({ mode: "all", n: "10", gap: "" });

/** The form of a new session. */
export function newDraft(sources: string[] = [], destinations: string[] = []): Draft {
  return {
    name: "", named: false, sources, destinations, both: true, delay: true, loss: true, filters: [],
    sampling: allPackets(), samplingFor: [], interval: "1s", granularity: "flow", records: false,
    encoding: "udp", family: "any", device: [], routers: [], lease: "10s", tracing: true, trace: "1m",
    when: { kind: "now", start: "", zone: ownZone(), repeat: { kind: "daily", times: ["09:00"], days: [1], line: "0 9 * * *" }, duration: "" },
  };
}

const span = (ns: number | undefined, missing: string): string => (ns === undefined || ns === 0 ? missing : spanText(ns));

function samplingDraft(s: Sampling | undefined): SamplingDraft {
  const gap = span(nanos(s?.minGap), "");
  if (s && s.every > 1) return { mode: "every", n: String(s.every), gap };
  if (s && s.random > 1) return { mode: "random", n: String(s.random), gap };
  return { ...allPackets(), gap };
}

/** The form of a specification that the server gave. */
export function draftOf(spec: SessionSpec): Draft {
  const d = newDraft([...spec.sources], [...spec.destinations]);
  const trace = nanos(spec.trace) ?? 0;
  const start = millis(spec.start);
  const zone = spec.cron ? spec.timeZone || "UTC" : ownZone();
  return {
    ...d, name: spec.name, named: true, both: spec.both,
    delay: spec.modules.length === 0 || spec.modules.includes("delay"), loss: spec.modules.length === 0 || spec.modules.includes("loss"),
    filters: spec.filters.map((text) => filterRow(text)).filter((row) => row !== undefined),
    sampling: samplingDraft(spec.sampling),
    samplingFor: Object.entries(spec.samplingFor).sort().map(([agent, s]) => ({ agent, sampling: samplingDraft(s) })),
    interval: span(nanos(spec.interval), d.interval), granularity: spec.granularity || d.granularity, records: spec.records,
    encoding: spec.encoding || d.encoding, family: spec.family || d.family,
    device: Object.entries(spec.device).sort().map(([agent, device]) => ({ agent, device })),
    routers: [...spec.routers], lease: span(nanos(spec.lease), d.lease), tracing: trace >= 0, trace: trace > 0 ? spanText(trace) : d.trace,
    when: {
      kind: spec.cron ? "repeat" : start === undefined ? "now" : "once", start: start === undefined ? "" : wallText(start, zone), zone,
      repeat: spec.cron ? repeatOf(spec.cron) : d.when.repeat, duration: span(nanos(spec.duration), ""),
    },
  };
}

/** The form of a copy: another name, and no start that is over. */
export function copyOf(spec: SessionSpec, now = Date.now()): Draft {
  const d = draftOf(spec);
  const over = d.when.kind === "once" && (millis(spec.start) ?? 0) <= now;
  return { ...d, name: "", named: false, when: over ? { ...d.when, kind: "now", start: "" } : d.when };
}

/** Reads answers, and gathers those that are none. */
class Reader {
  readonly faults: Fault[] = [];

  fault(field: string, message: string): void {
    this.faults.push({ field, message });
  }

  span(field: string, text: string): ReturnType<typeof spanMessage> | undefined {
    if (text.trim() === "") return undefined;
    const ns = parseSpan(text);
    if (ns !== undefined && ns >= 0) return spanMessage(ns);
    this.fault(field, spanRule);
    return undefined;
  }

  sampling(field: string, s: SamplingDraft): Sampling | undefined {
    const minGap = this.span(`${field}.min_gap`, s.gap);
    if (s.mode === "all") return minGap ? create(SamplingSchema, { minGap }) : undefined;
    const n = Number(s.n);
    if (!/^\d+$/.test(s.n.trim()) || n < 2 || n > 0xffffffff) {
      this.fault(`${field}.${s.mode}`, "Write a whole number from 2 on.");
      return undefined;
    }
    return create(SamplingSchema, { [s.mode]: n, minGap });
  }

  /** Entries by agent; those without an agent, or with one that is there twice, are faults. */
  byAgent<T>(field: string, rows: readonly { agent: string; value: T }[]): { [agent: string]: T } {
    const all: { [agent: string]: T } = {};
    rows.forEach(({ agent, value }, i) => {
      if (!agent) this.fault(`${field}[#${i}]`, "Choose an agent, or remove this line.");
      else if (agent in all) this.fault(`${field}[#${i}]`, "This agent has a line already.");
      else all[agent] = value;
    });
    return all;
  }
}

function modules(d: Draft, r: Reader): string[] {
  if (!d.delay && !d.loss) r.fault("modules", "Choose delay, loss or both.");
  return [d.delay && "delay", d.loss && "loss"].filter((m) => m !== false);
}

function schedule(w: WhenDraft, r: Reader): Pick<SessionSpec, "start" | "duration" | "cron" | "timeZone"> {
  const start = w.kind === "now" || w.start === "" ? undefined : fromWall(w.start, w.zone);
  if (w.kind === "once" && start === undefined) r.fault("start", "Choose a date and a time.");
  const none = { start: start === undefined ? undefined : timestampFromMs(start), duration: r.span("duration", w.duration), cron: "", timeZone: "" };
  if (w.kind !== "repeat") return none;
  if (w.duration.trim() === "") r.fault("duration", "Repeated runs need a length, or the first would never end.");
  const line = cronOf(w.repeat);
  if ("fault" in line) {
    r.fault(line.at === "times" ? "cron.times" : "cron.days", line.fault);
    return none;
  }
  if (line.line === "") r.fault("cron", "Write a cron line of five fields, such as 0 9 * * 1-5.");
  return { ...none, cron: line.line, timeZone: w.zone };
}

/** The specification of a form, without what could not be read, and why it could not. */
export function specOf(d: Draft): { spec: SessionSpec; faults: Fault[] } {
  const r = new Reader();
  d.filters.forEach((row, i) => {
    if (filterText(row) === "") r.fault(`filters[${i}]`, "Fill in at least one part, or remove this line.");
  });
  const spec = create(SessionSpecSchema, {
    name: d.name.trim(), sources: d.sources, destinations: d.destinations, both: d.both, modules: modules(d, r),
    filters: d.filters.map(filterText), sampling: r.sampling("sampling", d.sampling),
    samplingFor: r.byAgent("sampling_for", d.samplingFor.map((s) => ({
      agent: s.agent, value: r.sampling(`sampling_for[${s.agent}]`, s.sampling) ?? create(SamplingSchema),
    }))),
    interval: r.span("interval", d.interval), granularity: d.granularity, records: d.records,
    encoding: d.encoding, family: d.family,
    device: r.byAgent("device", d.device.map((one) => ({ agent: one.agent, value: one.device.trim() }))),
    routers: d.routers, lease: r.span("lease", d.lease), trace: d.tracing ? r.span("trace", d.trace) : spanMessage(-1e9),
    ...schedule(d.when, r),
  });
  return { spec, faults: r.faults };
}

/** A name for what is measured, that no session has yet. */
export function suggestName(sources: string[], destinations: string[], taken: ReadonlySet<string>): string {
  const side = (all: string[]): string => {
    const first = all[0];
    if (first === undefined || all.includes("*")) return first === undefined ? "" : "all";
    return (first.split("=").pop() || first) + (all.length > 1 ? "-and-more" : "");
  };
  const words = [...new Set([side(sources), side(destinations)].filter(Boolean))];
  const stem = words.join("-to-").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 56).replace(/-+$/, "") || "session";
  for (let i = 1; ; i++) {
    const name = i === 1 ? stem : `${stem}-${i}`;
    if (!taken.has(name)) return name;
  }
}
