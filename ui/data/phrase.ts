// A specification as text.
import type { DescMessage } from "@bufbuild/protobuf";
import { SessionSpecSchema, type PointOption, type PointRequest, type Sampling, type SessionSpec } from "../gen/session_pb.ts";
import { cronWords } from "./cron.ts";
import { filterWords } from "./filter.ts";
import { spanWords } from "./length.ts";
import { settingFacts } from "./setting.ts";
import { millis, nanos } from "./time.ts";
import { moment } from "./quantity.ts";
import { ownZone, zoned } from "./zone.ts";

/** Which packets are marked. */
export function samplingWords(s: Sampling | undefined): string {
  const gap = nanos(s?.minGap) ?? 0;
  const content = s && s.hash > 1 ? `1 in ${s.hash} packets, by content${s.hashSeed && ` (seed ${s.hashSeed})`}` : "every packet";
  const what = s && s.every > 1 ? `1 in ${s.every} packets` : s && s.random > 1 ? `1 in ${s.random} packets, at random` : content;
  return gap > 0 ? `${what}, at least ${spanWords(gap)} apart` : what;
}

/** Which traffic is measured. */
export const trafficWords = (filters: readonly string[]): string => (filters.length === 0 ? "all traffic" : filters.map(filterWords).join("; "));

/** When it runs. */
export function whenWords(s: SessionSpec): string {
  const length = nanos(s.duration) ?? 0;
  const lasts = length > 0 ? `for ${spanWords(length)}` : "until stopped";
  const start = millis(s.start);
  if (s.cron) {
    const zone = s.timeZone || "UTC";
    return `${cronWords(s.cron)} (${zone}), ${lasts}${start === undefined ? "" : `, not before ${zoned(start, zone)}`}`;
  }
  return start === undefined ? `immediately, ${lasts}` : `at ${moment(start)} (${ownZone()}), ${lasts}`;
}

const selectors = (all: readonly string[]): string => all.map((s) => (s === "*" ? "all agents" : s)).join(", ");

/** Names of the points and modules of a session; routers is short for one of them. */
export const pointNames = (s: SessionSpec): string[] => [...s.modules, ...(s.routers.length > 0 ? ["router"] : []), ...s.points.map((p) => p.name)];

function pointWords({ name, agents, options }: PointRequest): string {
  const settings = Object.entries(options).sort().map(([key, value]) => `${key} ${value}`).join(", ");
  return [name, agents.length > 0 && `on ${selectors(agents)}`, settings && `(${settings})`].filter(Boolean).join(" ");
}

/** The fields of a complete specification with labels; settings describes those that have no code of their own. */
export function facts(s: SessionSpec, settings: readonly PointOption[], schema: DescMessage = SessionSpecSchema): { label: string; text: string }[] {
  const byAgent = Object.entries(s.samplingFor).sort().map(([agent, one]) => `${agent}: ${samplingWords(one)}`);
  return [
    { label: "Sources", text: selectors(s.sources) },
    { label: "Destinations", text: selectors(s.destinations) },
    { label: "Directions", text: s.both ? "both" : "source to destination" },
    { label: "Metrics", text: s.modules.join(", ").replace(/, ([^,]*)$/, " and $1") },
    { label: "Traffic", text: trafficWords(s.filters) },
    { label: "Sampling", text: samplingWords(s.sampling) },
    { label: "Sampling per source", text: byAgent.join("; ") || "none" },
    { label: "When", text: whenWords(s) },
    { label: "Rows", text: `one every ${spanWords(nanos(s.interval) ?? 0)} per ${s.granularity}` },
    { label: "Packet records", text: s.records ? "yes" : "no" },
    ...settingFacts(s, settings, schema),
    { label: "Interfaces", text: Object.entries(s.device).sort().map(([a, d]) => `${a}: ${d}`).join(", ") || "by route" },
    { label: "Hosts behind agents", text: Object.entries(s.transit).sort().map(([a, p]) => `${a}: ${p.replaceAll(",", ", ")}`).join("; ") || "none" },
    { label: "Waypoints", text: selectors(s.waypoints) || "none" },
    { label: "Routers", text: selectors(s.routers) || "none" },
    { label: "Further points", text: s.points.map(pointWords).join("; ") || "none" },
    { label: "Path tracing", text: (nanos(s.trace) ?? 0) > 0 ? `every ${spanWords(nanos(s.trace) ?? 0)}` : "off" },
  ];
}

/** The differences between two complete specifications. */
export function differences(before: SessionSpec, after: SessionSpec, settings: readonly PointOption[]): { label: string; before: string; after: string }[] {
  const texts = (s: SessionSpec) => new Map(facts(s, settings).map(({ label, text }) => [label, text]));
  const [then, now] = [texts(before), texts(after)];
  return [...new Map([...then, ...now]).keys()].map((label) => ({ label, before: then.get(label) ?? "none", after: now.get(label) ?? "none" }))
    .filter((d) => d.before !== d.after);
}
