// Measurement points: what sessions can measure in addition to marked packets, and its rows.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Column, Line, Row, Value } from "../gen/data_pb.ts";
import type { Point, PointOption, PointView } from "../gen/session_pb.ts";
import { dataClient, sessionClient } from "./client.ts";
import { bytes, count, duration, figures, moment, rate } from "./quantity.ts";
import { mapped, resource, type Resource } from "./resource.ts";

const catalogue = resource(300_000, (signal) => sessionClient.listPoints({}, { signal }));

/** All points by name. */
export const points = mapped(catalogue, (c) => c.points);

/** The modules of marks by name. */
export const modules = mapped(catalogue, (c) => c.modules);

/** The modules and points, which have views to draw. */
export const drawn = mapped(catalogue, (c) => [...c.modules, ...c.points]);

/** The fields of a specification that have bounds or a fixed set of values. */
export const settings = mapped(catalogue, (c) => c.settings);

/** The bounds of an option in words: 100ms to 1h; empty: none. */
export function rangeOf({ min, max }: PointOption): string {
  return min && max ? `${min} to ${max}` : min ? `at least ${min}` : max ? `at most ${max}` : "";
}

/** The values of an option as choices, each with its meaning. */
export const choicesOf = (o: PointOption | undefined): { value: string; label: string; help: string | undefined }[] =>
  (o?.choices ?? []).map((value, i) => ({ value, label: value, help: o?.choiceDocs[i] }));

const refreshMs = 2000;
const hourMs = 3600e3;
const linesMost = 24;

/** Columns that must equal a value. */
export type Where = Record<string, string>;

/** A table: its columns, and the newest row of each group. */
export interface PointTable {
  columns: Column[];
  rows: Value[][];
}

/** The table of a view over the last hour. */
export function tableOf(view: PointView, where: Where): Resource<PointTable> {
  const columns = [...new Set([...view.groupBy, ...view.columns, "time"])];
  return resource(refreshMs, async (signal) => {
    const answer = await dataClient.listRows({ stream: view.stream, columns, where, from: timestampFromMs(Date.now() - hourMs), limit: 1000 }, { signal });
    return { columns: answer.columns, rows: newest(answer.rows, view.groupBy.length) };
  });
}

/**
 * The values of the newest row of each group, in order of the groups. Rows are newest first; the first columns
 * identify the group.
 */
export function newest(rows: readonly Row[], grouped: number): Value[][] {
  const groups = new Map<string, Value[]>();
  for (const { values } of rows) {
    const key = values.slice(0, grouped).map(plainText).join("\0");
    if (!groups.has(key)) groups.set(key, values);
  }
  return [...groups].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true })).map(([, values]) => values);
}

/** The lines of a view over the last hour. step is the distance of their points, ms; to is the end, ms since 1970. */
export function linesOf(view: PointView, where: Where): Resource<{ lines: Line[]; step: number; to: number }> {
  return resource(refreshMs, async (signal) => {
    const to = Date.now();
    const answer = await dataClient.series({
      stream: view.stream, where, by: view.groupBy, points: 360, lines: linesMost, from: timestampFromMs(to - hourMs), to: timestampFromMs(to),
      aggregates: view.columns.map((column) => ({ column, function: "avg", weight: view.weight })),
    }, { signal });
    return { lines: answer.lines, step: Number(answer.step?.seconds ?? 0) * 1000 + (answer.step?.nanos ?? 0) / 1e6, to };
  });
}

/** A number in the unit of its column. */
export function numberText(n: number, unit: string): string {
  if (Number.isNaN(n)) return "–";
  if (unit === "ns") return duration(n);
  if (unit === "bytes") return bytes(n);
  if (unit === "bit/s") return rate(n);
  const text = Number.isInteger(n) ? count(n) : figures(n);
  return unit === "" || unit === "packets" ? text : `${text} ${unit}`;
}

function plainText({ kind }: Value): string {
  return kind.case === undefined || kind.case === "list" ? "" : String(kind.value);
}

/** A value in the unit of its column. */
export function valueText(value: Value, unit: string): string {
  const { kind } = value;
  switch (kind.case) {
    case undefined: return "–";
    case "bool": return kind.value ? "yes" : "no";
    case "text": return kind.value || "–";
    case "time": return moment(Number(kind.value / 1_000_000n));
    case "binary": return `${count(kind.value.length)} bytes`;
    case "list": return `${count(kind.value.values.length)} values`;
    default: return numberText(Number(kind.value), unit);
  }
}

/** A value of a column as text; port numbers are identifiers and get no thousands separators. */
export const cellText = (value: Value, column: Column): string => (/^[sd]port$/.test(column.name) ? plainText(value) || "–" : valueText(value, column.unit));

/** Whether values of a column are aligned as numbers. */
export const isNumber = (c: Column): boolean => /^(u?int|float)\d+$/.test(c.type);

/** Heading of a column: its name without the unit. */
export const heading = (name: string): string => name.replace(/_(ns|bytes|bits_per_second)$/, "").replaceAll(/[_-]/g, " ");

/** A column of a point's stream. */
export const columnOf = (point: Point, view: PointView, name: string): Column | undefined =>
  point.streams.find((s) => s.name === view.stream)?.columns.find((c) => c.name === name);
