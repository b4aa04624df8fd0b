// Reports as rows: what is read is checked, whatever was written.
import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ValueSchema } from "../gen/data_pb.ts";
import { headOf, imageOf, newestOf, partOf, partsMost, reportOf, rowOf, widthOf, type Row } from "./reports.ts";

const row = (part: number, kind: string, content: unknown, more: Partial<Row> = {}): Row =>
  ({ time: 1000, experiment: "e", report: "r", part, kind, body: typeof content === "string" ? content : JSON.stringify(content), ...more });
const head = (parts: number, more: Partial<Row> = {}): Row => row(0, "head", { title: "T", parts, verdicts: { met: 1 }, facts: [["runs", "7"]] }, more);

test("a report is its parts in order, and says what is missing", () => {
  const rows = [row(2, "text", { text: "b" }), head(4), row(1, "section", { title: "a" }), row(4, "text", "{"), row(9, "text", { text: "beyond" })];
  const report = reportOf(rows);
  expect(report?.parts).toEqual([{ kind: "section", title: "a" }, { kind: "text", text: "b", note: false }]);
  expect(report?.missing).toBe(2);
  expect(report?.head).toMatchObject({ title: "T", facts: [["runs", "7"]], verdicts: { met: 1, missed: 0, undecided: 0 } });
  expect(reportOf([row(1, "text", { text: "without a head" })])).toBeUndefined();
});

test("parts of other shapes are refused or emptied", () => {
  for (const body of ["", "null", "[]", "7", "{", `"${"x".repeat(1 << 20)}"`]) expect(partOf("text", body)).toBeUndefined();
  expect(partOf("script", "{}")).toBeUndefined();
  expect(partOf("verdict", JSON.stringify({ verdict: "won", text: "x" }))).toBeUndefined();
  expect(partOf("figure", JSON.stringify({ svg: "<html>" }))).toBeUndefined();
  expect(partOf("text", JSON.stringify({ text: { evil: 1 }, note: "yes" }))).toEqual({ kind: "text", text: "", note: false });
  expect(partOf("table", JSON.stringify({ columns: [1, "b"], rows: [["x", 2], "no"], numeric: ["0", 1], marked: [0.5] }))).toEqual(
    { kind: "table", caption: "", columns: ["", "b"], rows: [["x", ""], []], numeric: [1], marked: [] });
  expect(headOf("e", "r", 0, JSON.stringify({ parts: 1e9 }))?.parts).toBe(partsMost);
  expect(headOf("e", "r", 0, JSON.stringify({ parts: -1, facts: {}, verdicts: [] }))).toMatchObject({ parts: 0, facts: [] });
});

test("a table of too many rows is cut", () => {
  const part = partOf("table", JSON.stringify({ columns: ["a"], rows: Array.from({ length: 5000 }, () => ["1"]) }));
  expect(part?.kind === "table" && part.rows.length).toBe(2000);
});

test("the colours of a drawing cannot leave their style", () => {
  const url = imageOf('<svg viewBox="0 0 1 1"><path/></svg>', "--c0:red;}</style><script>alert(1)</script>");
  expect(url.startsWith("data:image/svg+xml,")).toBe(true);
  const drawing = decodeURIComponent(url.slice("data:image/svg+xml,".length));
  expect(drawing).toBe('<svg viewBox="0 0 1 1"><style>:root{--c0:red;/stylescriptalert(1)/script}</style><path/></svg>');
});

test("a drawing is as wide as it says", () => {
  expect(['<svg role="img" viewBox="0 0 299.1 237"/>', "<svg/>", '<svg viewBox="0 0 0 1"/>', '<svg viewBox="0 0 1.2.3 1"/>'].map(widthOf)).toEqual([399, undefined, undefined, undefined]);
});

test("the list has the newest report of each experiment", () => {
  const heads = newestOf([head(1, { time: 1, report: "old" }), head(1, { time: 3, report: "new" }), head(1, { time: 2, experiment: "f" }), row(0, "head", "no")]);
  expect(heads.map((h) => [h.experiment, h.report])).toEqual([["e", "new"], ["f", "r"]]);
});

test("rows are read by the order of the columns", () => {
  const text = (value: string) => create(ValueSchema, { kind: { case: "text", value } });
  const values = [create(ValueSchema, { kind: { case: "time", value: 5_000_000n } }), text("e"), text("r"), create(ValueSchema, { kind: { case: "uint", value: 3n } }), text("text"), text("{}")];
  expect(rowOf(values)).toEqual({ time: 5, experiment: "e", report: "r", part: 3, kind: "text", body: "{}" });
  expect(rowOf([])).toEqual({ time: 0, experiment: "", report: "", part: -1, kind: "", body: "" });
});
