import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { PathSchema, type Path } from "../gen/topology_pb.ts";
import { boundOf, pathCounts, type PairLoss } from "./bound.ts";
import type { Way } from "./topology.ts";

const path = (source: string, destination: string, address = destination): Path => create(PathSchema, { source, destination, address, protocol: "udp" });
const way = (...paths: Path[]): Way => ({ from: "x", to: "y", negative: false, paths });
const losses = (rows: Record<string, [lost: number, expected: number]>): Map<string, PairLoss> =>
  new Map(Object.entries(rows).map(([pair, [lost, expected]]) => [pair, { lost, expected }]));

describe("boundOf", () => {
  const ab = path("a", "b");
  const ac = path("a", "c");
  const counts = pathCounts([ab, ac]);
  it("is the lowest loss of the pairs that use the edge", () => {
    expect(boundOf(way(ab, ac), losses({ "a>b": [8, 1000], "a>c": [4, 1000], "b>c": [0, 1000] }), counts)).toMatchObject({ share: 0.004, pair: "a>c", perhaps: false });
  });
  it("is unknown without a measured pair", () => {
    expect(boundOf(way(ab), losses({ "b>a": [0, 1000] }), counts)).toBeUndefined();
    expect(boundOf(way(path("a", "")), losses({ "a>b": [0, 1000] }), counts)).toBeUndefined();
  });
  it("ignores a few packets", () => {
    expect(boundOf(way(ab, ac), losses({ "a>b": [0, 3], "a>c": [10, 1000] }), counts)?.pair).toBe("a>c");
  });
  it("names the pair with most packets if losses are equal", () => {
    expect(boundOf(way(ab, ac), losses({ "a>b": [0, 100], "a>c": [0, 1000] }), counts)?.pair).toBe("a>c");
  });
  it("trusts a pair less whose route is new", () => {
    const fresh = create(PathSchema, { source: "a", destination: "b", changed: { seconds: 100n } });
    expect(boundOf(way(fresh), losses({ "a>b": [1, 1000] }), counts, 90_000)?.perhaps).toBe(true);
    expect(boundOf(way(fresh), losses({ "a>b": [1, 1000] }), counts, 110_000)?.perhaps).toBe(false);
  });
  it("trusts a pair less that has other paths", () => {
    const other = path("a", "c", "c2");
    const bound = boundOf(way(ab, ac), losses({ "a>b": [8, 1000], "a>c": [0, 1000] }), pathCounts([ab, ac, other]));
    expect(bound).toMatchObject({ pair: "a>b", perhaps: false });
    expect(boundOf(way(ac), losses({ "a>c": [0, 1000] }), pathCounts([ac, other]))).toMatchObject({ perhaps: true });
  });
});
