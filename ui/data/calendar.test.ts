import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { RunSchema, type Run } from "../gen/session_pb.ts";
import { blocks, layout, weekOf } from "./calendar.ts";

const days = weekOf(new Date(2026, 10, 18, 12).getTime()); // the week of Monday, 16 November
const at = (day: number, hours: number): number => (days[day] ?? 0) + hours * 3600_000;
const run = (session: string, start: number, end?: number, state = "done"): Run =>
  create(RunSchema, { session, state, start: timestampFromMs(start), end: end === undefined ? undefined : timestampFromMs(end) });

it("a week begins on Monday and has seven days", () => {
  expect(days.map((d) => new Date(d).getDate())).toEqual([16, 17, 18, 19, 20, 21, 22, 23]);
  expect(weekOf(new Date(2026, 10, 22, 23).getTime())[0]).toBe(days[0]);
  expect(weekOf(days[0] ?? 0, 1)[0]).toBe(days[7]);
  expect(weekOf(days[0] ?? 0, -1)[7]).toBe(days[0]);
});

it("draws overlapping runs side by side, others at full width", () => {
  const week = layout([run("a", at(2, 6), at(2, 12)), run("b", at(2, 9), at(2, 15)), run("c", at(2, 13), at(2, 14)), run("d", at(2, 20), at(2, 21))], days, at(2, 12));
  expect(week.placed[2]?.map((p) => [p.block.session, p.column, p.columns])).toEqual([["a", 0, 2], ["b", 1, 2], ["c", 0, 2], ["d", 0, 1]]);
  expect(week.placed[2]?.[0]).toMatchObject({ top: 0.25, height: 0.25 });
});

it("splits a run at midnight", () => {
  const week = layout([run("a", at(2, 22), at(3, 4))], days, 0);
  expect(week.placed.map((p) => p.length)).toEqual([0, 0, 1, 1, 0, 0, 0]);
  expect(week.placed[3]?.[0]).toMatchObject({ top: 0 });
});

it("shows long runs as bars in lanes, also beyond the week", () => {
  const week = layout([run("a", at(0, -30), at(1, 1)), run("b", at(0, 0), at(2, 0)), run("c", at(2, 0), undefined, "running")], days, at(4, 0));
  expect(week.bars.map((b) => [b.block.session, b.from, b.to, b.lane, b.before, b.after])).toEqual([["a", 0, 2, 0, true, false], ["b", 0, 2, 1, false, false], ["c", 2, 7, 0, false, true]]);
  expect(week.lanes).toBe(2);
});

it("gives short runs a minimum height, also before midnight", () => {
  const week = layout([run("a", at(1, 24) - 1000, at(1, 24) - 500), run("b", at(1, 3), at(1, 3))], days, 0);
  expect(week.placed[1]?.map((p) => p.height)).toEqual([1 / 48, 1 / 48]);
  expect((week.placed[1]?.[1]?.top ?? 0) + 1 / 48).toBeCloseTo(1);
});

it("combines many short runs of a session, by state", () => {
  const each = Array.from({ length: 12 }, (_, i) => run("ping", at(1, 10) + i * 300_000, at(1, 10) + i * 300_000 + 60_000, i < 6 ? "done" : "planned"));
  expect(blocks(each).map((b) => [b.runs, b.state])).toEqual([[6, "done"], [6, "planned"]]);
  expect(blocks([run("x", at(1, 1), at(1, 1)), run("x", at(1, 3), at(1, 3))])).toHaveLength(2);
});
