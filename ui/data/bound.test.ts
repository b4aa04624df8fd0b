import { describe, expect, it } from "vitest";
import { boundOf, lossesOf, PairCounter, type Losses, type PairLoss } from "./bound.ts";
import type { PathEntry, Way } from "./topology.ts";

const names: string[] = [];
const path = (source: string, destination: string, address = destination, changed = 0): PathEntry => {
  const name = `${source}>${destination}`;
  if (!names.includes(name)) names.push(name);
  return { source, destination, address, protocol: "udp", kind: "traceroute", reached: true, time: 0, changed, pair: names.indexOf(name), from: 0, to: 1, route: { number: 0, nodes: [] } };
};
const way = (...paths: PathEntry[]): Way => ({ from: "x", to: "y", negative: false, paths });
const losses = (rows: Record<string, [lost: number, expected: number]>, paths: PathEntry[], since = Infinity): Losses =>
  lossesOf(paths, names.length, new Map(Object.entries(rows).map(([pair, [lost, expected]]) => [pair, { lost, expected } satisfies PairLoss])), since);

describe("boundOf", () => {
  const ab = path("a", "b");
  const ac = path("a", "c");
  const all = [ab, ac];
  it("is the lowest loss of the pairs that use the edge", () => {
    expect(boundOf(way(ab, ac), losses({ "a>b": [8, 1000], "a>c": [4, 1000], "b>c": [0, 1000] }, all))).toMatchObject({ share: 0.004, pair: "a>c", perhaps: false });
  });
  it("is unknown without a measured pair", () => {
    expect(boundOf(way(ab), losses({ "b>a": [0, 1000] }, all))).toBeUndefined();
    expect(boundOf(way(path("a", "")), losses({ "a>b": [0, 1000], "a>": [0, 1000] }, [path("a", "")]))).toBeUndefined();
  });
  it("ignores a few packets", () => {
    expect(boundOf(way(ab, ac), losses({ "a>b": [0, 3], "a>c": [10, 1000] }, all))?.pair).toBe("a>c");
  });
  it("names the pair with most packets if losses are equal", () => {
    expect(boundOf(way(ab, ac), losses({ "a>b": [0, 100], "a>c": [0, 1000] }, all))?.pair).toBe("a>c");
  });
  it("trusts a pair less whose route is new", () => {
    const fresh = path("a", "b", "b", 100_000);
    expect(boundOf(way(fresh), losses({ "a>b": [1, 1000] }, all, 90_000))?.perhaps).toBe(true);
    expect(boundOf(way(fresh), losses({ "a>b": [1, 1000] }, all, 110_000))?.perhaps).toBe(false);
  });
  it("trusts a pair less that has other paths", () => {
    const other = path("a", "c", "c2");
    const bound = boundOf(way(ab, ac), losses({ "a>b": [8, 1000], "a>c": [0, 1000] }, [ab, ac, other]));
    expect(bound).toMatchObject({ pair: "a>b", perhaps: false });
    expect(boundOf(way(ac), losses({ "a>c": [0, 1000] }, [ac, other]))).toMatchObject({ perhaps: true });
  });
});

it("counts each pair once", () => {
  const [ab, ac] = [path("a", "b"), path("a", "c")];
  const counter = new PairCounter(names.length);
  expect(counter.of([way(ab, path("a", "b", "b2")), way(ab, ac, path("a", ""))])).toBe(2);
  expect(counter.of([way(ac)])).toBe(1);
});
