// Default views of a point that this page knows only by its descriptor.
import { readFileSync } from "node:fs";
import { create, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { render } from "preact";
import { expect, test } from "vitest";
import { cellText, heading, newest, numberText } from "../data/points.ts";
import { ColumnSchema, LineSchema, ListRowsResponseSchema, SeriesResponseSchema, ValueSchema } from "../gen/data_pb.ts";
import { PointSchema, PointViewSchema } from "../gen/session_pb.ts";
import { begin, chartOf, PointRows } from "./points.tsx";

/** What the API answers about the example point that exists only in tests (cli/agent). */
const example = JSON.parse(readFileSync("data/testdata/example-point.json", "utf8")) as Record<"point" | "rows" | "series", JsonValue>;

const cellsOf = (box: Element): string[][] => [...box.querySelectorAll("tr")].map((row) => [...row.children].map((c) => c.textContent ?? ""));

test("the example point has its table and chart without any code for it", () => {
  const { views } = fromJson(PointSchema, example.point);
  const [table, lines] = [views.find((v) => v.kind === "table"), views.find((v) => v.kind === "lines")];
  const { columns, rows } = fromJson(ListRowsResponseSchema, example.rows);
  const box = document.createElement("div");
  render(<PointRows title={table?.title ?? ""} table={{ columns, rows: newest(rows, table?.groupBy.length ?? 0) }} />, box);
  expect(cellsOf(box).map((r) => r.slice(0, 4))).toEqual([["agent", "path", "packets", "delay"], ["north", "long", "4", "600 µs"], ["north", "short", "4", "6.00 µs"]]);
  const series = fromJson(SeriesResponseSchema, example.series);
  const chart = lines && chartOf(lines, series.lines, Number(series.lines[0]?.timesMs[0]), 1000);
  expect(chart?.lines.map((l) => [l.label, ...[0, 1, 2, 3].map((i) => l.values[i])])).toEqual([["long", 150_000, 300_000, 450_000, 600_000], ["short", 1500, 3000, 4500, 6000]]);
});

const text = (t: string): JsonValue => ({ text: t });
const answer = fromJson(ListRowsResponseSchema, {
  columns: [
    { name: "agent", type: "string" }, { name: "socket", type: "string" }, { name: "wait_mean_ns", type: "int64", unit: "ns", doc: "mean wait" },
    { name: "queued", type: "uint64", unit: "packets" }, { name: "full", type: "bool" }, { name: "time", type: "time" },
  ],
  rows: [
    { values: [text("a"), text("s10"), { int: "2500000" }, { uint: "12345" }, { bool: true }, { time: "1772366400000000000" }] },
    { values: [text("a"), text("s2"), {}, { uint: "0" }, { bool: false }, { time: "1772366400000000000" }] },
    { values: [text("a"), text("s10"), { int: "1" }, { uint: "1" }, { bool: false }, { time: "1772366399000000000" }] },
  ],
});

test("a table has the newest row of each group, with units", () => {
  const box = document.createElement("div");
  render(<PointRows title="Sockets" table={{ columns: answer.columns, rows: newest(answer.rows, 2) }} />, box);
  const [head, ...rows] = cellsOf(box);
  expect(head).toEqual(["agent", "socket", "wait mean", "queued", "full", "time"]);
  expect(rows.map((r) => r.slice(0, 5))).toEqual([["a", "s2", "–", "0", "no"], ["a", "s10", "2.50 ms", "12\u202f345", "yes"]]);
  expect(box.querySelector("table")?.querySelectorAll("td.number").length).toBe(4);
});

test("a chart has a line for each group and column, on one grid", () => {
  const view = create(PointViewSchema, { columns: ["wait_mean_ns", "wait_max_ns"], groupBy: ["socket"] });
  const line = (socket: string, at: number, ...values: number[]) =>
    create(LineSchema, { labels: { socket }, timesMs: [BigInt(at)], values: values.map((v) => ({ values: [v] })) });
  const { times, lines } = chartOf(view, [line("s1", 20_000, 5, 7), line("s2", 0, 1, 2)], 0, 10_000);
  expect(times.slice(0, 3)).toEqual([0, 10_000, 20_000]);
  expect(lines.map((l) => [l.label, l.values[0], l.values[2]])).toEqual([
    ["s1, wait mean", NaN, 5], ["s1, wait max", NaN, 7], ["s2, wait mean", 1, NaN], ["s2, wait max", 2, NaN],
  ]);
});

test.each([[1500, "ns", "1.50 µs"], [2048, "bytes", "2.00 KiB"], [3, "packets", "3"], [NaN, "ns", "–"], [12.5, "%", "12.5 %"]])("%d %s", (n, unit, want) =>
  expect(numberText(n, unit)).toBe(want));

test("a chart begins with its first value, at least a minute ago and at most an hour", () => {
  const hour = 3600e3;
  const chart = (at: number) => ({ times: [0, 1, 2, 3].map((i) => i * hour / 4), lines: [{ label: "", colour: "", values: Float64Array.from([0, 1, 2, 3], (i) => (i >= at ? 1 : NaN)) }] });
  expect([0, 1, 3, 4].map((at) => begin(chart(at), hour))).toEqual([0, 0, hour / 2, 0]);
  expect(begin({ ...chart(0), times: [hour - 2000, hour - 1000, hour, hour] }, hour)).toBe(hour - 60e3);
});

test("ports are no quantities", () => {
  expect(["sport", "dport", "packets"].map((name) => cellText(create(ValueSchema, { kind: { case: "uint", value: 40844n } }), create(ColumnSchema, { name, type: "uint16" })))).toEqual(["40844", "40844", "40\u202f844"]);
  expect(cellText(create(ValueSchema), create(ColumnSchema, { name: "sport", type: "uint16" }))).toBe("–");
});

test("headings have no units", () => expect(heading("delay_mean_ns")).toBe("delay mean"));
