import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { AgentSchema } from "../../gen/agent_pb.ts";
import { SessionSchema } from "../../gen/session_pb.ts";
import { PairTable, type Measure } from "../../data/pair-table.ts";
import { choose, fits, labelKeys, Measured } from "./hosts.ts";
import { mixed, paletteOf, Picture } from "./picture.ts";
import { stateOf, worst } from "./state.ts";

const agent = (name: string, labels: Record<string, string> = {}) => create(AgentSchema, { name, labels, state: "connected" });

function session(name: string, state: string, pairs: [string, string][], seconds = 1) {
  return create(SessionSchema, { spec: { name, interval: { seconds: BigInt(seconds), nanos: 0 } }, state, pairs: pairs.map(([source, destination]) => ({ source, destination })) });
}

/** Figures of some pairs at one second. */
function fed(rows: { from: number; to: number; p50?: number; lost?: number }[], agents: string[], at = 0): PairTable {
  const table = new PairTable();
  table.take({
    startMs: 1_700_000_000_000, agents, sources: rows.map((r) => r.from), destinations: rows.map((r) => r.to),
    packets: rows.map(() => 10), expected: rows.map(() => 10), lost: rows.map((r) => r.lost ?? 0),
    p50Ns: rows.map((r) => r.p50 ?? 5e6), p99Ns: rows.map((r) => (r.p50 ?? 5e6) * 2), rate: rows.map(() => 1), clockErrorNs: rows.map(() => NaN),
  }, at);
  return table;
}

const all = { filter: "", group: "", all: false, ends: [] as string[] };
const empty = new PairTable();

describe("hosts", () => {
  it("are measured by running sessions only", () => {
    const measured = new Measured([session("x", "running", [["a", "b"]]), session("y", "paused", [["b", "a"]]), session("z", "degraded", [["a", "b"]], 5)]);
    expect(measured.size).toBe(1);
    expect(measured.interval("a", "b")).toBe(5000);
    expect(measured.interval("b", "a")).toBeUndefined();
    expect(new Measured([session("x", "running", [["a", "b"]])], "y").size).toBe(0);
  });
  it("are in natural order", () => {
    const got = choose(["h10", "h2", "h1"].map((n) => agent(n)), new Measured([]), empty, all);
    expect(got.rows.names).toEqual(["h1", "h2", "h10"]);
  });
  it("of many, only measured ones", () => {
    const agents = Array.from({ length: 20 }, (_, i) => agent(`h${i}`));
    const measured = new Measured([session("x", "running", [["h1", "h2"], ["h1", "h3"]])]);
    const got = choose(agents, measured, empty, all);
    expect([got.rows.names, got.columns.names, got.idle]).toEqual([["h1"], ["h2", "h3"], 17]);
    expect(choose(agents, measured, empty, { ...all, all: true }).rows.names.length).toBe(20);
  });
  it("include those with figures only", () => {
    expect(choose([], new Measured([]), fed([{ from: 0, to: 1 }], ["a", "b"]), all).rows.names).toEqual(["a", "b"]);
  });
  it("of which only pairs are visible are where these are", () => {
    const measured = new Measured([session("x", "running", [["a", "far"], ["near", "a"]])]);
    const { rows, columns, idle } = choose([agent("a"), agent("b")], measured, empty, { ...all, ends: ["far", "near", "quiet"] });
    expect([rows.names, columns.names, idle]).toEqual([["a", "b", "near"], ["a", "b", "far"], 0]);
  });
  it("are grouped by a label, those without it last", () => {
    const agents = [agent("a", { site: "south" }), agent("b"), agent("c", { site: "north" }), agent("d", { site: "south" })];
    const { rows } = choose(agents, new Measured([]), empty, { ...all, group: "site" });
    expect(rows).toEqual({ names: ["c", "a", "d", "b"], groups: ["north", "south", "south", ""] });
    expect(labelKeys(agents)).toEqual(["site"]);
  });
  it("match a filter by name or label", () => {
    const labels = { site: "north", edge: "" };
    for (const filter of ["", "H1", "site=no", "edge", "h1 north"]) expect(fits("h1", labels, filter), filter).toBe(true);
    for (const filter of ["h2", "site=south", "h1 south"]) expect(fits("h1", labels, filter), filter).toBe(false);
  });
});

it("names the state of a pair", () => {
  expect(stateOf(0, 1000)).toBe("live");
  expect(stateOf(6000, 1000)).toBe("stale");
  expect(stateOf(6000, 5000)).toBe("live");
  expect(stateOf(60_000, 1000)).toBe("quiet");
  expect(stateOf(60_000, undefined)).toBe("none");
  expect(stateOf(Infinity, 1000)).toBe("quiet");
});

describe("Picture", () => {
  const picture = (measure: Measure, table: PairTable, now = 0) => {
    const measured = new Measured([session("x", "running", [["a", "b"], ["b", "a"], ["a", "c"]])]);
    return new Picture(choose(["a", "b", "c"].map((n) => agent(n)), measured, table, all), measured, measure).update(table, now);
  };
  const rows = [{ from: 0, to: 1, p50: 1e6 }, { from: 1, to: 0, p50: 9e7, lost: 3 }];

  it("knows states", () => {
    const p = picture("delay", fed(rows, ["a", "b"]));
    expect([p.state(0, 0), p.state(0, 1), p.state(0, 2), p.state(2, 0)]).toEqual(["self", "live", "quiet", "none"]);
    expect(picture("delay", fed(rows, ["a", "b"]), 8000).state(0, 1)).toBe("stale");
    expect(picture("delay", fed(rows, ["a", "b"]), 30_000).state(0, 1)).toBe("quiet");
  });
  it("colours by delay", () => {
    const p = picture("delay", fed(rows, ["a", "b"]));
    expect(p.span).toEqual({ low: 1e6, high: 1e8, log: true });
    expect(p.tone(0, 1)).toBeLessThan(p.tone(1, 0));
  });
  it("colours by loss, with none apart", () => {
    const p = picture("loss", fed(rows, ["a", "b"]));
    expect(p.tone(0, 1)).toBe(4);
    expect(p.tone(1, 0)).toBe(4 + 63);
  });
  it("has a colour for each tone", () => {
    const ground = { panel: "#ffffff", ground: "#f5f6f4", empty: "#e9ece9", line: "#d5d9d4" };
    for (const measure of ["delay", "loss"] as const) {
      for (const { colour } of paletteOf(measure, true, ground)) expect(colour).toMatch(/^#[0-9a-f]{6}$/);
      expect(paletteOf(measure, false, ground).length).toBe(4 + 128);
    }
    expect(mixed("#000000", "#ffffff", 0.5)).toBe("#808080");
  });
  it("costs little for 200 hosts", () => {
    const names = Array.from({ length: 200 }, (_, i) => `h${i}`);
    const many = names.flatMap((_, from) => names.flatMap((_, to) => (from === to ? [] : [{ from, to, p50: 1e6 + from * 1e4 + to }])));
    const table = fed(many, names);
    const p = new Picture(choose(names.map((n) => agent(n)), new Measured([]), table, all), new Measured([]), "delay");
    p.update(table, 0);
    expect(p.pairs.filter((pair) => pair >= 0).length).toBe(39_800);
    expect(p.state(3, 3)).toBe("self");
  });
});

it("finds the worst pairs", () => {
  const table = fed([{ from: 0, to: 1, p50: 1 }, { from: 1, to: 0, p50: 3 }, { from: 0, to: 2, p50: 2 }, { from: 2, to: 0, p50: 9 }], ["a", "b", "c"]);
  expect(worst(table, "delay", (pair) => pair !== 3, 2).map((s) => s.value)).toEqual([3, 2]);
  expect(worst(table, "loss", () => true, 5)).toEqual([]);
});
