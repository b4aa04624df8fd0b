// The command line equivalent to a form.
import { create, toJson, type DescMessage, type JsonValue } from "@bufbuild/protobuf";
import { SessionSpecSchema, type PointRequest, type SessionSpec } from "../gen/session_pb.ts";
import { parseSpan, spanText } from "./length.ts";
import { settingFlags } from "./setting.ts";
import { millis, nanos } from "./time.ts";

/** A word quoted for a POSIX shell. */
export function quoted(word: string): string {
  return /^[A-Za-z0-9_.,:=/@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function flags(s: SessionSpec, usual: SessionSpec | undefined, schema: DescMessage): string[][] {
  const all: string[][] = [];
  const flag = (name: string, value: string | number | undefined, byDefault?: string | number): void => {
    if (value !== undefined && value !== "" && value !== 0 && value !== byDefault) all.push([`--${name}`, String(value)]);
  };
  const span = (name: string, ns: number | undefined, byDefault?: number): void => {
    if (ns !== undefined && ns !== byDefault) ns < 0 ? all.push([`--${name}=${spanText(ns)}`]) : flag(name, spanText(ns));
  };
  flag("name", s.name);
  flag("from", s.sources.join(","));
  flag("to", s.destinations.join(","));
  if (s.both) all.push(["--both"]);
  flag("modules", s.modules.join(","), usual?.modules.join(","));
  all.push(...settingFlags(s, usual, schema));
  for (const f of s.filters) flag("filter", f);
  flag("every", s.sampling?.every);
  flag("random", s.sampling?.random);
  flag("hash", s.sampling?.hash);
  flag("hash-seed", s.sampling?.hashSeed);
  span("min-gap", nanos(s.sampling?.minGap));
  span("interval", nanos(s.interval), nanos(usual?.interval));
  flag("by", s.granularity, usual?.granularity);
  if (s.records) all.push(["--records"]);
  for (const [agent, device] of Object.entries(s.device).sort()) flag("device", `${agent}=${device}`);
  for (const [agent, prefixes] of Object.entries(s.transit).sort()) flag("transit", `${agent}=${prefixes}`);
  for (const waypoint of s.waypoints) flag("waypoint", waypoint);
  for (const router of s.routers) flag("router", router);
  for (const point of s.points) flag("point", pointText(point));
  span("trace", nanos(s.trace), nanos(usual?.trace));
  const start = millis(s.start);
  if (start !== undefined) flag("start", new Date(start).toISOString().replace(".000Z", "Z"));
  span("duration", nanos(s.duration) || undefined);
  flag("cron", s.cron);
  if (s.cron) flag("tz", s.timeZone, "UTC");
  return all;
}

/** A point as on the command line: NAME:OPTION=VALUE,...@AGENT,... */
function pointText({ name, agents, options }: PointRequest): string {
  const settings = Object.entries(options).sort().map(([key, value]) => `${key}=${value}`).join(",");
  return name + (settings && `:${settings}`) + (agents.length > 0 ? `@${agents.join(",")}` : "");
}

/** The command that creates the session, without defaults. Fields without a flag are passed as YAML. */
export function createCommand(s: SessionSpec, defaults: SessionSpec | undefined, schema: DescMessage = SessionSpecSchema): string {
  const words = flags(s, defaults, schema).map((f) => f.map(quoted).join(" "));
  const only = Object.keys(s.samplingFor).length > 0;
  const line = ["pillion session create" + (only ? " -" : ""), ...words].join(" ");
  return only ? `${line} <<'END'\n${yaml(create(SessionSpecSchema, { samplingFor: s.samplingFor }))}END` : line;
}

/** The command that changes the session: with the whole specification, so that lists can become empty. */
export const changeCommand = (s: SessionSpec): string => `pillion session change ${quoted(s.name)} - <<'END'\n${yaml(s)}END`;

/** YAML with a line per field; values are JSON, which is valid YAML, with durations as on the command line. */
function yaml(s: SessionSpec): string {
  const all = toJson(SessionSpecSchema, s, { useProtoFieldName: true }) as Record<string, JsonValue>;
  const written = (_: string, v: unknown): unknown => (typeof v === "string" && /^-?[\d.]+s$/.test(v) ? spanText(parseSpan(v) ?? 0) : v);
  return Object.entries(all).map(([key, value]) => `${key}: ${JSON.stringify(value, written)}\n`).join("");
}
