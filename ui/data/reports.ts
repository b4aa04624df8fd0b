// Reports of experiments, from the stream that pillion.report publishes to. Whoever may
// report to the server may write there: what is read is checked, drawn as text, and as
// images, in which nothing runs.
import { Code, ConnectError } from "@connectrpc/connect";
import type { Value } from "../gen/data_pb.ts";
import { dataClient } from "./client.ts";
import { resource, type Resource } from "./resource.ts";

const stream = "oml_experiment_report_part";
const listMost = 1000;
/** Parts of a report, and bytes of one and of all; more is not shown. */
export const partsMost = 500;
const partMost = 1 << 20;
const reportMost = 8 << 20;
const rowsMost = 2000;
const columnsMost = 40;

const verdicts = ["met", "missed", "undecided"] as const;
export type Verdict = (typeof verdicts)[number];

/** The first part of a report. */
export interface Head {
  experiment: string;
  /** Identifies the report among the reports of its experiment. */
  report: string;
  /** When it was published, ms since 1970. */
  time: number;
  title: string;
  question: string;
  facts: [string, string][];
  parts: number;
  verdicts: Record<Verdict, number>;
  /** Values of the colours of drawings, as declarations of CSS. */
  light: string;
  dark: string;
}

export type Part =
  | { kind: "section"; title: string }
  | { kind: "text"; text: string; note: boolean }
  | { kind: "verdict"; verdict: Verdict; text: string }
  | { kind: "table"; caption: string; columns: string[]; rows: string[][]; numeric: number[]; marked: number[] }
  | { kind: "figure"; title: string; description: string; caption: string; svg: string }
  | { kind: "code"; caption: string; text: string };

export interface Report {
  head: Head;
  parts: Part[];
  /** Parts that are missing or cannot be read. */
  missing: number;
}

/** A row of the stream. */
export interface Row {
  /** ms since 1970. */
  time: number;
  experiment: string;
  report: string;
  part: number;
  kind: string;
  body: string;
}

const textOf = (v: Value | undefined): string => (v?.kind.case === "text" ? v.kind.value : "");

/** Reads the values of the columns time, experiment, report, part, kind, body. */
export function rowOf([time, experiment, report, part, kind, body]: readonly Value[]): Row {
  return {
    time: time?.kind.case === "time" ? Number(time.kind.value / 1_000_000n) : 0,
    experiment: textOf(experiment), report: textOf(report), kind: textOf(kind), body: textOf(body),
    part: part?.kind.case === "uint" || part?.kind.case === "int" ? Number(part.kind.value) : -1,
  };
}

type Plain = Record<string, unknown>;

const isPlain = (v: unknown): v is Plain => typeof v === "object" && v !== null && !Array.isArray(v);
const text = (v: unknown): string => (typeof v === "string" ? v : "");
const list = (v: unknown): unknown[] => (Array.isArray(v) ? v : []);
const places = (v: unknown): number[] => list(v).filter((n): n is number => Number.isInteger(n));
const count = (v: unknown): number => (Number.isSafeInteger(v) && (v as number) >= 0 ? (v as number) : 0);

function parsed(body: string): Plain | undefined {
  if (body.length > partMost) return undefined;
  try {
    const value: unknown = JSON.parse(body);
    return isPlain(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Reads the head of a report; undefined if it is none. */
export function headOf(experiment: string, report: string, time: number, body: string): Head | undefined {
  const value = parsed(body);
  if (!value || !experiment || !report) return undefined;
  const found = isPlain(value.verdicts) ? value.verdicts : {};
  return {
    experiment, report, time, title: text(value.title) || experiment, question: text(value.question),
    facts: list(value.facts).slice(0, columnsMost).map((f): [string, string] => [text(list(f)[0]), text(list(f)[1])]),
    parts: Math.min(count(value.parts), partsMost),
    verdicts: { met: count(found.met), missed: count(found.missed), undecided: count(found.undecided) },
    light: text(value.light), dark: text(value.dark),
  };
}

/** Reads a part; undefined if it is none. */
export function partOf(kind: string, body: string): Part | undefined {
  const v = parsed(body);
  if (!v) return undefined;
  switch (kind) {
    case "section": return { kind, title: text(v.title) };
    case "text": return { kind, text: text(v.text), note: v.note === true };
    case "verdict": {
      const verdict = verdicts.find((one) => one === v.verdict);
      return verdict && { kind, verdict, text: text(v.text) };
    }
    case "table": return {
      kind, caption: text(v.caption), columns: list(v.columns).slice(0, columnsMost).map(text),
      rows: list(v.rows).slice(0, rowsMost).map((row) => list(row).slice(0, columnsMost).map(text)), numeric: places(v.numeric), marked: places(v.marked),
    };
    case "figure": return /^<svg[\s>]/.test(text(v.svg)) ? { kind, title: text(v.title), description: text(v.description), caption: text(v.caption), svg: text(v.svg) } : undefined;
    case "code": return { kind, caption: text(v.caption), text: text(v.text) };
    default: return undefined;
  }
}

/** The image of a drawing, with colours of a theme. An image runs no script and loads nothing. */
export function imageOf(svg: string, colours: string): string {
  const style = `<style>:root{${colours.replace(/[<>{}]/g, "")}}</style>`;
  return `data:image/svg+xml,${encodeURIComponent(svg.replace(/^<svg[^>]*>/, (head) => head + style))}`;
}

/** The width of a drawing, from points in pixels, so that letters are as large in all of them; undefined if it does not say. */
export function widthOf(svg: string): number | undefined {
  const points = Number(/^<svg[^>]*\sviewBox="0 0 ([0-9.]+) /.exec(svg)?.[1]);
  return points > 0 ? Math.round((points * 4) / 3) : undefined;
}

/** Puts the parts of one report together. rows are its rows in any order. */
export function reportOf(rows: readonly Row[]): Report | undefined {
  const byPlace = new Map<number, Row>();
  for (const row of rows) byPlace.set(row.part, row);
  const first = byPlace.get(0);
  const head = first && first.kind === "head" ? headOf(first.experiment, first.report, first.time, first.body) : undefined;
  if (!head) return undefined;
  const parts: Part[] = [];
  let size = 0;
  for (let i = 1; i <= head.parts; i++) {
    const row = byPlace.get(i);
    size += row?.body.length ?? 0;
    const part = row && size <= reportMost ? partOf(row.kind, row.body) : undefined;
    if (part) parts.push(part);
  }
  return { head, parts, missing: head.parts - parts.length };
}

const columns = ["time", "experiment", "report", "part", "kind", "body"];

async function rowsOf(where: Record<string, string>, limit: number, signal: AbortSignal): Promise<Row[]> {
  try {
    const answer = await dataClient.listRows({ stream, columns, where, limit }, { signal });
    return answer.rows.map(({ values }) => rowOf(values));
  } catch (error) {
    // Without a report there is no stream.
    if (ConnectError.from(error).code === Code.NotFound) return [];
    throw error;
  }
}

/** Of heads, the newest of each experiment, newest first. */
export function newestOf(rows: readonly Row[]): Head[] {
  const heads = new Map<string, Head>();
  for (const row of [...rows].sort((a, b) => b.time - a.time)) {
    const head = headOf(row.experiment, row.report, row.time, row.body);
    if (head && !heads.has(head.experiment)) heads.set(head.experiment, head);
  }
  return [...heads.values()];
}

/** The newest report of each experiment. */
export const reports: Resource<Head[]> = resource(10_000, async (signal) => newestOf(await rowsOf({ kind: "head" }, listMost, signal)));

/** A report by its experiment, the newest one unless its identifier is given; null: there is none. */
export const reportResource = (experiment: string, report: string | undefined): Resource<Report | null> =>
  resource(60_000, async (signal) => {
    const heads = await rowsOf({ experiment, kind: "head" }, listMost, signal);
    const chosen = report ?? newestOf(heads)[0]?.report;
    if (!chosen) return null;
    return reportOf(await rowsOf({ experiment, report: chosen }, partsMost + 1, signal)) ?? null;
  });
