import { describe, expect, it } from "vitest";
import { kept, limits, PairTable, recent, type Second } from "./pair-table.ts";

const t0 = 1_700_000_000_000;

interface Row { from: number; to: number; packets?: number; expected?: number; lost?: number; p50?: number; p99?: number; rate?: number; clock?: number }

function second(at: number, rows: Row[], agents: string[] = []): Second {
  return {
    startMs: t0 + at * 1000, agents,
    sources: rows.map((r) => r.from), destinations: rows.map((r) => r.to),
    packets: rows.map((r) => r.packets ?? 10), expected: rows.map((r) => r.expected ?? 10), lost: rows.map((r) => r.lost ?? 0),
    p50Ns: rows.map((r) => r.p50 ?? 5e6), p99Ns: rows.map((r) => r.p99 ?? 6e6),
    rate: rows.map((r) => r.rate ?? 1000), clockErrorNs: rows.map((r) => r.clock ?? NaN),
  };
}

const line = (table: PairTable, pair: number, n = 4) => {
  const out = new Float32Array(n);
  table.history(pair, "delay", out);
  return [...out];
};

describe("PairTable", () => {
  it("keeps figures by the names of hosts", () => {
    const table = new PairTable();
    table.take(second(0, [{ from: 0, to: 1, p50: 1e6, lost: 1 }, { from: 1, to: 0, p50: 2e6 }], ["a", "b"]), 0);
    expect(table.size).toBe(2);
    const pair = table.find("a", "b");
    expect(table.figure(pair, "delay")).toBe(1e6);
    expect(table.figure(pair, "p99")).toBe(6e6);
    expect(table.figure(pair, "loss")).toBeCloseTo(0.1);
    expect(table.find("b", "a")).toBe(table.between(table.place("b"), table.place("a")));
    expect(table.find("a", "c")).toBe(-1);
    expect(table.find("a", "a")).toBe(-1);
  });

  it("replaces pairs of a second that are sent again, and keeps the others", () => {
    const table = new PairTable();
    table.take(second(0, [{ from: 0, to: 1, packets: 4 }, { from: 1, to: 0, packets: 4, p50: 2e6 }], ["a", "b"]));
    table.take(second(0, [{ from: 0, to: 1, packets: 7, p50: 3e6 }]));
    expect(table.packets[table.find("a", "b")]).toBe(7);
    expect(table.packets[table.find("b", "a")]).toBe(4);
    expect(line(table, table.find("a", "b"), 1)).toEqual([3e6]);
    expect(line(table, table.find("b", "a"), 1)).toEqual([2e6]);
  });

  it("passes over messages without pairs", () => {
    const table = new PairTable();
    table.take({ ...second(0, []), startMs: 0 });
    expect(table.newest).toBeUndefined();
    expect(table.age(0)).toBe(Infinity);
  });

  it("leaves gaps where nothing came", () => {
    const table = new PairTable();
    table.take(second(0, [{ from: 0, to: 1, p50: 1 }], ["a", "b"]));
    table.take(second(2, [{ from: 0, to: 1, p50: 3 }]));
    expect(line(table, 0)).toEqual([NaN, 1, NaN, 3]);
  });

  it("forgets what is older than a minute", () => {
    const table = new PairTable();
    table.take(second(0, [{ from: 0, to: 1, p50: 1 }], ["a", "b"]));
    table.take(second(kept, [{ from: 0, to: 1, p50: 2 }]));
    expect(line(table, 0, kept).filter((v) => !Number.isNaN(v))).toEqual([2]);
    table.take(second(0, [{ from: 0, to: 1, p50: 9 }])); // comes far too late
    expect(line(table, 0, kept).filter((v) => !Number.isNaN(v))).toEqual([2]);
    expect(table.figure(0, "delay")).toBe(2);
  });

  it("lets a late second change the past only", () => {
    const table = new PairTable();
    table.take(second(5, [{ from: 0, to: 1, p50: 5 }], ["a", "b"]));
    table.take(second(4, [{ from: 0, to: 1, p50: 4 }]));
    expect(line(table, 0, 2)).toEqual([4, 5]);
    expect(table.figure(0, "delay")).toBe(5);
    expect(table.newest).toBe(t0 + 5000);
  });

  it("adds up loss and packets of the last seconds", () => {
    const table = new PairTable();
    for (let i = 0; i < recent + 5; i++) table.take(second(i, [{ from: 0, to: 1, packets: 20, expected: 20, lost: i < 5 ? 20 : 1 }], i ? [] : ["a", "b"]));
    expect(table.loss(0)).toBeCloseTo(1 / 20);
    expect(table.packetRate(0)).toBeCloseTo(20);
    const young = new PairTable();
    young.take(second(0, [{ from: 0, to: 1, packets: 20 }], ["a", "b"]));
    expect(young.packetRate(0)).toBeCloseTo(20);
  });

  it("keeps the last delay where a second has none", () => {
    const table = new PairTable();
    table.take(second(0, [{ from: 0, to: 1, p50: 7 }], ["a", "b"]));
    table.take(second(1, [{ from: 0, to: 1, p50: NaN, p99: NaN, expected: 0 }]));
    expect(table.figure(0, "delay")).toBe(7);
  });

  it("grows older between messages", () => {
    const table = new PairTable();
    table.take(second(0, [{ from: 0, to: 1 }, { from: 1, to: 0 }], ["a", "b"]), 1000);
    table.take(second(3, [{ from: 0, to: 1 }]), 4000);
    expect(table.age(0, 4000)).toBe(0);
    expect(table.age(1, 4000)).toBe(3000);
    expect(table.age(0, 9000)).toBe(5000);
  });

  it("forgets at the first second of a new stream, not before", () => {
    const table = new PairTable();
    table.take(second(0, [{ from: 0, to: 1 }], ["a", "b"]));
    table.begin();
    expect(table.find("a", "b")).toBe(0);
    table.take(second(1, [{ from: 0, to: 1, p50: 8 }], ["b", "a"]));
    expect(table.find("a", "b")).toBe(-1);
    expect(table.figure(table.find("b", "a"), "delay")).toBe(8);
    expect(table.size).toBe(1);
  });

  it("keeps its figures while it grows", () => {
    const table = new PairTable();
    const names = Array.from({ length: 40 }, (_, i) => `h${i}`);
    table.take(second(0, [{ from: 0, to: 1, p50: 11 }], names.slice(0, 2)));
    const rows: Row[] = [];
    for (let from = 0; from < 40; from++) for (let to = 0; to < 40; to++) if (from !== to) rows.push({ from, to, p50: from * 100 + to });
    table.take(second(1, rows, names.slice(2)));
    expect(table.size).toBe(40 * 39);
    expect(table.figure(table.find("h17", "h30"), "delay")).toBe(1730);
    expect(line(table, table.find("h0", "h1"), 2)).toEqual([11, 1]);
  });

  it("is bounded, and counts what has no room", () => {
    const table = new PairTable();
    const names = Array.from({ length: limits.agents + 1 }, (_, i) => `h${i}`);
    table.take(second(0, [{ from: 0, to: 1 }, { from: 0, to: limits.agents }, { from: 5000, to: 1 }], names));
    expect(table.size).toBe(1);
    expect(table.left).toBe(2);
    expect(table.place(`h${limits.agents}`)).toBe(-1);
  });
});
