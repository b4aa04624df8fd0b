import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { AgentSchema, type Agent } from "../gen/agent_pb.ts";
import { RowSchema } from "../gen/data_pb.ts";
import { SessionSchema } from "../gen/session_pb.ts";
import { PathSchema } from "../gen/topology_pb.ts";
import { breaksOf, chosenSession, queueColumns, queuedOf, routersOf, stageColumns, statements, waitedOf, type Waited } from "./router.ts";

const host = (name: string, interfaces: Record<string, string> = {}, role?: string): Agent => create(AgentSchema, {
  name, interfaces: Object.entries(interfaces).map(([n, a]) => ({ name: n, addresses: [a] })), tasks: role ? [{ agent: name, role }] : [],
});
const session = (routers: string[]) => create(SessionSchema, { spec: { name: "s", routers } });
const path = (source: string, destination: string, ...addresses: string[]) =>
  create(PathSchema, { source, destination, hops: addresses.map((address, i) => ({ ttl: i + 1, address })) });

describe("routers of a pair", () => {
  const r1 = host("r1", { west: "10.0.1.1/24", east: "10.0.2.1/24" });
  const r2 = host("r2", { up: "10.0.9.1/24" });
  const busy = host("r1", { west: "10.0.1.1/24", east: "10.0.2.1/24" }, "router");
  const there = path("a", "b", "10.0.1.1", "10.0.2.2");
  const home = path("b", "a", "10.0.2.1", "10.0.1.2");
  test.each([
    ["named, path not known", [session(["r1"])], [r1, r2], [], [{ agent: "r1" }]],
    ["named, on the path there and back", [session(["r1"])], [r1], [there, home], [{ agent: "r1", out: "west", back: "east" }]],
    ["named, and another on the path", [session(["r1", "r2"])], [r1, r2], [there], [{ agent: "r1", out: "west", back: undefined }]],
    ["profiled by itself, on the path", [session([])], [busy, r2], [there], [{ agent: "r1", out: "west", back: undefined }]],
    ["on the path, not profiled", [session([])], [r1], [there], []],
    ["profiled, on another path", [session([])], [busy], [path("a", "c", "10.0.1.1")], []],
    ["an end of the pair", [session(["a"])], [host("a", {}, "router")], [], []],
  ])("%s", (_name, sessions, agents, paths, want) => expect(routersOf({ source: "a", destination: "b" }, sessions, agents, paths)).toEqual(want));
});

describe("statements", () => {
  const q = { agents: ["r'1"], sessions: ["s"], from: 0, to: 300e3, step: 200 };
  test("names are literals, and windows no shorter than rows", () => {
    const s = statements(q);
    expect(s).toMatchObject({ step: 1000, sampled: 1 });
    expect(s.waited).toContain("agent IN ('r''1')");
    expect(s.waited).toContain("session IN ('', 's')");
    expect(s.waited).toContain("// 1000000000 * 1000 AS start");
    expect(s.waited).not.toContain("%");
  });
  test("of a long time some rows are looked at", () => {
    const s = statements({ ...q, to: 86_400e3, step: 288e3 });
    expect(s).toMatchObject({ step: 288e3, sampled: 24 });
    expect(s.waited).toContain("% 24 = 0");
    expect(s.queued).not.toContain("%");
  });
});

const value = (v: string | number | number[]) =>
  typeof v === "string" ? { kind: { case: "text" as const, value: v } }
  : Array.isArray(v) ? { kind: { case: "list" as const, value: { values: v.map(BigInt) } } }
  : Number.isInteger(v) ? { kind: { case: "int" as const, value: BigInt(v) } } : { kind: { case: "float" as const, value: v } };
const row = (...values: (string | number | number[])[]) => create(RowSchema, { values: values.map(value) });

test("rows are read", () => {
  expect(waitedOf([row("r1", "s", "west", "east", "processing", 5000, [1024, 2048], [3, 1])])).toEqual([
    { agent: "r1", session: "s", input: "west", output: "east", stage: "processing", start: 5000, bounds: [1024, 2048], counts: [3, 1] },
  ]);
  expect(queuedOf([row("r1", "s", "east", "output", 5000, 2.5, 4)])).toEqual([{ agent: "r1", session: "s", interface: "east", side: "output", start: 5000, mean: 2.5, kernel: 4 }]);
  expect(breaksOf([row("r1", "s", 9000, 2e6, "irq", "", 3), row("r1", "s", 8000, 1e6, "scheduled", "cc1", 1)]).map((b) => [b.time, b.length, b.task])).toEqual([[8000, 1e6, "cc1"], [9000, 2e6, ""]]);
});

const waited = (start: number, counts: number[], more: Partial<Waited> = {}): Waited =>
  ({ agent: "r1", session: "s", input: "west", output: "east", stage: "output_queuing", start, bounds: [1024, 65536], counts, ...more });

describe("columns of stages", () => {
  const times = [0, 1000, 2000];
  test("quantiles come from histograms added up", () => {
    const c = stageColumns([waited(1000, [9, 1]), waited(1000, [0, 90], { input: "south" })], times, 1000);
    expect(c.output_queuing.p50[1]).toBeGreaterThan(65535);
    expect(c.output_queuing.p50[0]).toBeNaN();
    expect(c.processing.p99[1]).toBeNaN();
  });
  test("what is outside the grid is left out", () => expect(stageColumns([waited(9000, [1, 1])], times, 1000).output_queuing.p99.every(Number.isNaN)).toBe(true));
});

test("a line for each queue", () => {
  const q = (name: string, side: "input" | "output", mean: number) => ({ agent: "r1", session: "s", interface: name, side, start: 1000, mean, kernel: 1 });
  const lines = queueColumns([q("east", "output", 2), q("west", "input", 1)], [0, 1000], 1000);
  expect(lines.map((l) => [l.side, l.interface, l.mean[1], l.kernel[1]])).toEqual([["input", "west", 1, 1], ["output", "east", 2, 1]]);
});

test("the session's own rows, else those of the router's own profile", () => {
  const rows = [waited(0, [1, 0], { session: "" }), waited(0, [1, 0], { session: "other" })];
  expect(chosenSession(rows, "r1", ["s", "other"])).toBe("other");
  expect(chosenSession(rows, "r1", ["s"])).toBe("");
});
