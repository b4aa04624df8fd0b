// Places in the form for problems of the specification.
import type { DescMessage } from "@bufbuild/protobuf";
import { SessionSpecSchema } from "../gen/session_pb.ts";
import type { Draft, Fault } from "./draft.ts";
import { isSetting } from "./setting.ts";

/** Sections of the form. */
export type Section = "who" | "what" | "traffic" | "sampling" | "rows" | "when" | "more";

/** The element of the form that shows a problem. */
export interface Place {
  id: string;
  section: Section;
}

const simple: Record<string, Section> = {
  name: "who", sources: "who", destinations: "who", both: "who", modules: "what", filters: "traffic", sampling: "sampling",
  interval: "rows", granularity: "rows", records: "rows", trace: "more",
  sampling_for: "more", device: "more", transit: "more", waypoints: "more", routers: "more", points: "more", start: "when", duration: "when", cron: "when", time_zone: "when",
};

/** The place of a field; its id is the id of the form's input. */
export function placeOf(field: string, d: Draft, schema: DescMessage = SessionSpecSchema): Place | undefined {
  const found = /^([a-z_]+)(?:\[([^\]]*)\])?(?:\.([a-z_]+))?(?:\[([^\]]*)\])?$/.exec(field);
  const stem = found?.[1] ?? "";
  const key = found?.[2]?.replaceAll('"', "");
  const tail = found?.[3] ?? "";
  const section = isSetting(stem, schema) ? "more" : simple[stem];
  if (!section) return undefined;
  if (stem === "filters" && key !== undefined) return d.filters[Number(key)] ? { id: `f-filter-${key}`, section } : { id: "f-filters", section };
  if (stem === "sampling") return { id: samplingId("f-sampling", tail), section };
  if (stem === "sampling_for" || stem === "device" || stem === "transit") return byAgent(stem, key, tail, d, section);
  if (stem === "points") return d.points[Number(key)] ? { id: `f-point-${key}${tail === "agents" ? "-agents" : tail === "options" ? `-${found?.[4]}` : ""}`, section } : { id: "f-points", section };
  if (stem === "cron") return cronPlace(tail, d);
  if (stem === "duration" || stem === "start" || stem === "time_zone") return whenPlace(stem, d);
  if (stem === "trace" && !d.tracing) return { id: "f-tracing", section };
  return { id: `f-${stem.replaceAll("_", "-")}`, section };
}

const samplingId = (stem: string, tail: string): string => `${stem}${tail === "min_gap" ? "-gap" : tail === "hash_seed" ? "-seed" : tail ? "-n" : ""}`;

function byAgent(stem: string, key: string | undefined, tail: string, d: Draft, section: Section): Place {
  const rows: readonly { agent: string }[] = stem === "device" ? d.device : stem === "transit" ? d.transit : d.samplingFor;
  const i = key?.startsWith("#") ? Number(key.slice(1)) : rows.findIndex((r) => r.agent === key);
  const own = `f-${stem.replace("_", "-")}`;
  return { id: rows[i] ? samplingId(`${own}-${i}`, tail) : own, section };
}

function cronPlace(tail: string, d: Draft): Place | undefined {
  if (d.when.kind !== "repeat") return undefined;
  if (tail) return { id: `f-cron-${tail}`, section: "when" };
  return { id: d.when.repeat.kind === "own" ? "f-cron-line" : "f-cron-times", section: "when" };
}

function whenPlace(stem: string, d: Draft): Place | undefined {
  if (stem === "duration") return { id: "f-duration", section: "when" };
  if (d.when.kind === "now") return undefined;
  return { id: stem === "start" ? "f-start" : "f-zone", section: "when" };
}

/** A problem as one sentence, without what the form shows anyway. */
export function tidy(message: string): string {
  const text = message.replace(/^read filter "(?:[^"\\]|\\.)*": /, "");
  const begin = /^[a-z0-9-]+: /.test(text) ? text.charAt(0) : text.charAt(0).toUpperCase(); // agent names keep their case
  return begin + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** Problems by place, and those without one. */
export interface Placed {
  at: Map<string, string>;
  sections: Map<Section, number>;
  rest: string[];
  count: number;
}

/** Assigns problems to places. Where the page itself found a problem, problems that the server found are left out. */
export function place(local: readonly Fault[], server: readonly Fault[], d: Draft): Placed {
  const placed: Placed = { at: new Map(), sections: new Map(), rest: [], count: 0 };
  const add = (f: Fault): void => {
    const where = placeOf(f.field, d);
    const text = tidy(f.message);
    placed.count++;
    if (!where) {
      placed.rest.push(f.field ? `${f.field}: ${text}` : text);
      return;
    }
    const before = placed.at.get(where.id);
    placed.at.set(where.id, before ? `${before} ${text}` : text);
    placed.sections.set(where.section, (placed.sections.get(where.section) ?? 0) + 1);
  };
  local.forEach(add);
  const own = new Set(placed.at.keys());
  for (const f of server) {
    const where = placeOf(f.field, d);
    if (!where || !own.has(where.id)) add(f);
  }
  return placed;
}
