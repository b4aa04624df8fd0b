// What the address of a pair holds, and addresses of other pairs.
import { computed } from "@preact/signals";
import { granularities, type Granularity } from "../../data/flows.ts";
import { href, refine, route } from "../../data/route.ts";
import { queryOf, spanOf, type Span } from "../../data/span.ts";
import type { Clock } from "../../data/window.ts";
import type { Selection } from "../../data/windows.ts";
import type { Sort } from "../../part/table.tsx";

export interface Look {
  source: string;
  destination: string;
  session: string;
  selection: Selection;
  /** One flow, or several put together, is looked at. */
  narrowed: boolean;
  span: Span;
  /** Paused; the end of the shown range. */
  frozen?: number;
  /** Direction of heat map and flows. */
  show: "out" | "back";
  /** The delay axis is logarithmic. */
  log: boolean;
  /** Which delays are shown. */
  clock: Clock;
  by: Granularity;
  sort: Sort;
  find: string;
}

const port = (text: string | null): number | undefined => {
  const n = Number(text);
  return Number.isInteger(n) && n > 0 && n < 65536 ? n : undefined;
};

/** The state of the view from the address. */
export const look = computed<Look>(() => {
  const { words, query } = route.value;
  const [, source = "", destination = ""] = words;
  const text = (key: string): string | undefined => query.get(key) || undefined;
  const session = query.get("session") ?? "";
  const flow = { src: text("src"), dst: text("dst"), proto: text("proto"), sport: port(query.get("sport")), dport: port(query.get("dport")) };
  const [key = "packets", way] = (query.get("sort") ?? "").split(".");
  const to = Number(query.get("to") ?? NaN);
  return {
    source, destination, session,
    selection: { source, destination, session: session || undefined, ...flow },
    narrowed: Object.values(flow).some((v) => v !== undefined),
    span: spanOf(query),
    frozen: query.get("paused") === "1" && to > 0 && !query.has("from") ? to : undefined,
    show: query.get("show") === "back" ? "back" : "out",
    log: query.get("axis") === "log",
    clock: query.get("clock") === "corrected" ? "corrected" : "measured",
    by: granularities.find((g) => g === query.get("by")) ?? "flow",
    sort: { key: key || "packets", ascending: way === "up" },
    find: query.get("find") ?? "",
  };
});

/** Shows another span and resumes. */
export const showSpan = (span: Span): void => refine({ ...queryOf(span), paused: undefined });

/** Pauses with the range ending at a time, or resumes. */
export const freeze = (to: number | undefined): void => refine({ paused: to === undefined ? undefined : 1, to: to && Math.round(to) });

export const showSort = (s: Sort): void =>
  refine({ sort: s.key === "packets" && !s.ascending ? undefined : `${s.key}${s.ascending ? ".up" : ""}` });

/** A flow in the address. */
export interface FlowWords {
  src?: string;
  dst?: string;
  proto?: string;
  sport?: number;
  dport?: number;
}

const words = (f: FlowWords) => ({ src: f.src || undefined, dst: f.dst || undefined, proto: f.proto || undefined, sport: f.sport || undefined, dport: f.dport || undefined });

/** The address of this view filtered by a flow of the shown direction. */
export function flowAddress(f: FlowWords): string {
  const { source, destination, show } = look.value;
  const back = { ...f, src: f.dst, dst: f.src, sport: f.dport, dport: f.sport };
  return href(["pair", source, destination], { ...Object.fromEntries(route.value.query), ...words(show === "back" ? back : f), find: undefined });
}

/** Removes the flow filter, or parts of it, from the address. */
export const widen = (keys: (keyof FlowWords)[] = ["src", "dst", "proto", "sport", "dport"]): void =>
  refine(Object.fromEntries(keys.map((k) => [k, undefined])));

/** The address of the same view in the other direction. */
export function swapped(): string {
  const { source, destination, selection: s } = look.value;
  const query = Object.fromEntries(route.value.query);
  return href(["pair", destination, source], { ...query, ...words({ src: s.dst, dst: s.src, proto: s.proto, sport: s.dport, dport: s.sport }) });
}
