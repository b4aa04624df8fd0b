import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { happenings, type Happening } from "../../data/feed.ts";
import { EventSchema, type Event } from "../../gen/server_pb.ts";
import { binsOf } from "./bins.ts";
import { choiceOf, filters, matching } from "./choice.ts";
import { dayWords, firstOf, foldDays } from "./fold.ts";
import { eventsCsv } from "./table.ts";

type Given = Partial<Omit<Event, "$typeName" | "time">>;
const list = (...given: [number, Given?][]): Happening[] =>
  happenings(given.map(([at, rest]) => create(EventSchema, { time: timestampFromMs(at), kind: "loss", level: "warning", ...rest })));
const at = (day: number, hour = 0, minute = 0): number => new Date(2026, 2, day, hour, minute).getTime();

describe("matching", () => {
  const all = list([5, { agent: "a", peer: "b", session: "s", message: "a > b lost 2 %" }], [4, { agent: "b", kind: "agent-lost" }], [3, { level: "info" }], [2, { level: "error" }], [1, { level: "odd" }]);
  const rows: [string, number[]][] = [
    ["", [5, 4, 3, 2, 1]], ["level=warning", [5, 4, 2, 1]], ["level=error", [2]], ["level=nonsense", [5, 4, 3, 2, 1]],
    ["kind=agent-lost", [4]], ["agent=b", [5, 4]], ["session=s", [5]], ["text=LOST+2", [5]], ["text=agent+lost", [4]], ["agent=x", []],
  ];
  it.each(rows)("%s", (query, want) => {
    const c = choiceOf(new URLSearchParams(query));
    expect(matching(all, c).map((h) => h.time)).toEqual(want);
    expect(filters(c)).toBe(query !== "" && query !== "level=nonsense");
  });
  it("reads ranges and parts", () => {
    expect(choiceOf(new URLSearchParams("range=7d")).range.key).toBe("7d");
    expect(choiceOf(new URLSearchParams("range=9y&from=5&to=1"))).toMatchObject({ range: { key: "24h" }, part: undefined });
    expect(choiceOf(new URLSearchParams("from=10&to=20")).part).toEqual({ from: 10, to: 20 });
  });
});

describe("foldDays", () => {
  it("folds repeated events, but not over midnight", () => {
    const days = foldDays(list([at(2, 1), { agent: "a" }], [at(2, 0, 30), { agent: "a" }], [at(1, 23), { agent: "a" }], [at(1, 22), { agent: "b" }], [at(1, 21), { agent: "a" }]));
    expect(days.map((d) => d.folds.map((f) => f.length))).toEqual([[2], [1, 1, 1]]);
    expect(firstOf(days, 2).map((d) => d.folds.length)).toEqual([1, 1]);
  });
  it("names days", () => {
    const now = at(2, 12);
    expect([at(2), at(1), at(-3)].map((d) => dayWords(d, now))).toEqual(["Today", "Yesterday", "Wednesday, 25 February 2026"]);
  });
});

describe("binsOf", () => {
  it("counts by level in round parts", () => {
    const bins = binsOf(list([at(2, 10, 1)], [at(2, 10, 2), { level: "error" }], [at(2, 11)], [at(3)]), at(2, 9, 7), at(2, 13, 7), 10);
    expect(new Date(bins[0]?.from ?? 0).getMinutes() % 30).toBe(0);
    expect(bins.map((b) => b.warning + b.error)).toEqual([0, 0, 2, 0, 1, 0, 0, 0, 0]);
    expect(bins[2]).toMatchObject({ warning: 1, error: 1, info: 0 });
  });
  it.each([1000, 3_600_000, 86_400_000, 30 * 86_400_000, 400 * 86_400_000])("has few parts for %i ms", (length) => {
    const bins = binsOf([], 1_000_000, 1_000_000 + length);
    expect(bins.length).toBeLessThanOrEqual(61);
    expect(bins.length).toBeGreaterThan(0);
  });
});

describe("eventsCsv", () => {
  it("quotes where required", () => {
    expect(eventsCsv(list([0, { message: 'a, "b"\n', agent: "=1+1" }])).split("\r\n")[1]).toBe(`1970-01-01T00:00:00.000Z,warning,loss,'=1+1,,,"a, ""b""\n"`);
  });
});
