// The input of the session form and its specification.
import { create, fromBinary, toBinary, type DescMessage } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { base64Decode, base64Encode } from "@bufbuild/protobuf/wire";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { PointRequestSchema, SamplingSchema, SessionSpecSchema, type Sampling, type SessionSpec } from "../gen/session_pb.ts";
import { cronOf, repeatOf, type Repeat } from "./cron.ts";
import { filterRow, filterText, type FilterRow } from "./filter.ts";
import { parseSpan, spanMessage, spanRule, spanText } from "./length.ts";
import { settingTexts, settingValues, type SettingTexts } from "./setting.ts";
import { millis, nanos } from "./time.ts";
import { fromWall, ownZone, wallText } from "./zone.ts";

export type SamplingMode = "all" | "every" | "random" | "hash";

/** Sampling as typed. */
export interface SamplingDraft {
  mode: SamplingMode;
  n: string;
  /** Seed of the hash, any text. */
  seed?: string;
  /** Minimum gap between two marked packets; empty: none. */
  gap: string;
}

/** The schedule as typed. */
export interface WhenDraft {
  kind: "now" | "once" | "repeat";
  /** Start in local time of the zone; for repeat: not before. */
  start: string;
  zone: string;
  repeat: Repeat;
  /** Duration of a run; empty: until stopped. */
  duration: string;
}

/** A point as typed. */
export interface PointDraft {
  name: string;
  agents: string[];
  options: Record<string, string>;
}

/** The whole form. */
export interface Draft {
  /** The specification that the form began with, in base64: fields that the form does not know keep its values. */
  origin: string;
  name: string;
  /** The name was typed, not suggested. */
  named: boolean;
  sources: string[];
  destinations: string[];
  both: boolean;
  modules: string[];
  filters: FilterRow[];
  sampling: SamplingDraft;
  samplingFor: { agent: string; sampling: SamplingDraft }[];
  interval: string;
  granularity: string;
  records: boolean;
  /** The settings that are known by their descriptions only, by name. */
  settings: SettingTexts;
  device: { agent: string; device: string }[];
  /** Prefixes of hosts behind agents. */
  transit: { agent: string; prefixes: string }[];
  /** Agents on the paths up to which delay is measured, and from there on. */
  waypoints: string[];
  /** Agents whose hosts are profiled as routers. */
  routers: string[];
  points: PointDraft[];
  tracing: boolean;
  trace: string;
  when: WhenDraft;
}

/** A problem at a field of the specification. */
export interface Fault {
  field: string;
  message: string;
}

/** Sampling of all packets. */
export const allPackets = (): SamplingDraft => ({ mode: "all", n: "10", gap: "" });

/** The form of a new session with the defaults of the server. */
export const newDraft = (defaults: SessionSpec, sources: string[] = [], destinations: string[] = [], schema: DescMessage = SessionSpecSchema): Draft =>
  ({ ...draftOf(defaults, schema), named: false, sources, destinations, both: true });

const text = (ns: number | undefined): string => (ns ? spanText(ns) : "");

function samplingDraft(s: Sampling | undefined): SamplingDraft {
  const gap = text(nanos(s?.minGap));
  if (s && s.every > 1) return { mode: "every", n: String(s.every), gap };
  if (s && s.random > 1) return { mode: "random", n: String(s.random), gap };
  if (s && s.hash > 1) return { mode: "hash", n: String(s.hash), seed: s.hashSeed, gap };
  return { ...allPackets(), gap };
}

const byName = <T>(all: { [name: string]: T }): [string, T][] => Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1));

/** The form of a complete specification. */
export function draftOf(spec: SessionSpec, schema: DescMessage = SessionSpecSchema): Draft {
  const trace = nanos(spec.trace) ?? 0;
  const start = millis(spec.start);
  const zone = spec.cron ? spec.timeZone : ownZone();
  return {
    origin: base64Encode(toBinary(schema, spec)),
    name: spec.name, named: true, sources: [...spec.sources], destinations: [...spec.destinations], both: spec.both,
    modules: [...spec.modules],
    filters: spec.filters.map((f) => filterRow(f)).filter((row) => row !== undefined),
    sampling: samplingDraft(spec.sampling),
    samplingFor: byName(spec.samplingFor).map(([agent, s]) => ({ agent, sampling: samplingDraft(s) })),
    interval: text(nanos(spec.interval)), granularity: spec.granularity, records: spec.records,
    settings: settingTexts(spec, schema),
    device: byName(spec.device).map(([agent, device]) => ({ agent, device })),
    transit: byName(spec.transit).map(([agent, prefixes]) => ({ agent, prefixes })),
    waypoints: [...spec.waypoints], routers: [...spec.routers], points: spec.points.map(({ name, agents, options }) => ({ name, agents: [...agents], options: { ...options } })),
    tracing: trace >= 0, trace: trace > 0 ? spanText(trace) : "",
    when: {
      kind: spec.cron ? "repeat" : start === undefined ? "now" : "once", start: start === undefined ? "" : wallText(start, zone), zone,
      repeat: repeatOf(spec.cron || "0 9 * * *"), duration: text(nanos(spec.duration)),
    },
  };
}

/** The form of a copy: without name and without a start in the past. */
export function copyOf(spec: SessionSpec, now = Date.now()): Draft {
  const d = draftOf(spec);
  const over = d.when.kind === "once" && (millis(spec.start) ?? 0) <= now;
  return { ...d, name: "", named: false, when: over ? { ...d.when, kind: "now", start: "" } : d.when };
}

/** Parses input and collects what cannot be parsed. */
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

  count(field: string, text: string): number | undefined {
    if (text.trim() === "") return undefined;
    if (/^[1-9]\d{0,8}$/.test(text.trim())) return Number(text);
    this.fault(field, "Enter an integer of at least 1.");
    return undefined;
  }

  sampling(field: string, s: SamplingDraft): Sampling | undefined {
    const minGap = this.span(`${field}.min_gap`, s.gap);
    if (s.mode === "all") return minGap ? create(SamplingSchema, { minGap }) : undefined;
    const n = Number(s.n);
    if (!/^\d+$/.test(s.n.trim()) || n < 2 || n > 0xffffffff) {
      this.fault(`${field}.${s.mode}`, "Enter an integer of at least 2.");
      return undefined;
    }
    const hashSeed = s.mode === "hash" ? s.seed : undefined;
    return create(SamplingSchema, { [s.mode]: n, minGap, ...(hashSeed && { hashSeed }) });
  }

  /** Entries by agent; each needs an agent of its own. */
  byAgent<T>(field: string, rows: readonly { agent: string; value: T }[]): { [agent: string]: T } {
    const all: { [agent: string]: T } = {};
    rows.forEach(({ agent, value }, i) => {
      if (!agent) this.fault(`${field}[#${i}]`, "Select an agent, or remove this line.");
      else if (agent in all) this.fault(`${field}[#${i}]`, "Another line has this agent.");
      else all[agent] = value;
    });
    return all;
  }
}

/** The initial input, with what was kept of it before a reload. */
export function keptDraft(kept: Partial<Draft> | undefined, begin: Draft): Draft {
  return { ...begin, ...kept, settings: { ...begin.settings, ...kept?.settings } };
}

function modules(d: Draft, r: Reader): string[] {
  if (d.modules.length === 0) r.fault("modules", "Select at least one metric.");
  return d.modules.toSorted();
}

function schedule(w: WhenDraft, r: Reader): Pick<Fields, "start" | "duration" | "cron" | "timeZone"> {
  const start = w.kind === "now" || w.start === "" ? undefined : fromWall(w.start, w.zone);
  if (w.kind === "once" && start === undefined) r.fault("start", "Enter a date and a time.");
  const none = { start: start === undefined ? undefined : timestampFromMs(start), duration: r.span("duration", w.duration), cron: "", timeZone: "" };
  if (w.kind !== "repeat") return none;
  if (w.duration.trim() === "") r.fault("duration", "Repeated runs need a duration.");
  const line = cronOf(w.repeat);
  if ("fault" in line) {
    r.fault(line.at === "times" ? "cron.times" : "cron.days", line.fault);
    return none;
  }
  if (line.line === "") r.fault("cron", "Enter a cron expression such as 0 9 * * 1-5.");
  return { ...none, cron: line.line, timeZone: w.zone };
}

/** The fields of a specification that have a form of their own, so that the compiler finds one that it does not set. All others are settings. */
type Fields = Pick<SessionSpec, "name" | "sources" | "destinations" | "both" | "modules" | "filters" | "sampling" | "samplingFor" | "interval" | "granularity" | "records"
  | "device" | "transit" | "waypoints" | "routers" | "points" | "trace" | "start" | "duration" | "cron" | "timeZone">;

/** The specification of a form, and the problems of input that could not be parsed. */
export function specOf(d: Draft, schema: GenMessage<SessionSpec> = SessionSpecSchema): { spec: SessionSpec; faults: Fault[] } {
  const r = new Reader();
  d.filters.forEach((row, i) => {
    if (filterText(row) === "") r.fault(`filters[${i}]`, "Fill in at least one field, or remove this filter.");
  });
  const fields: Fields = {
    name: d.name.trim(), sources: d.sources, destinations: d.destinations, both: d.both, modules: modules(d, r),
    filters: d.filters.map(filterText), sampling: r.sampling("sampling", d.sampling),
    samplingFor: r.byAgent("sampling_for", d.samplingFor.map((s) => ({
      agent: s.agent, value: r.sampling(`sampling_for[${s.agent}]`, s.sampling) ?? create(SamplingSchema),
    }))),
    interval: r.span("interval", d.interval), granularity: d.granularity, records: d.records,
    device: r.byAgent("device", d.device.map((one) => ({ agent: one.agent, value: one.device.trim() }))),
    transit: r.byAgent("transit", d.transit.map((one) => ({ agent: one.agent, value: one.prefixes.replaceAll(/\s/g, "") }))),
    waypoints: d.waypoints, routers: d.routers, points: d.points.map((p) => create(PointRequestSchema, p)), trace: d.tracing ? r.span("trace", d.trace) : spanMessage(-1e9),
    ...schedule(d.when, r),
  };
  const spec = Object.assign(fromBinary(schema, base64Decode(d.origin)), fields, settingValues(d.settings, r, schema));
  return { spec, faults: r.faults };
}

/** A free name that describes what is measured. */
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
