import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { TrafficVolumeSchema, type TrafficVolume } from "../gen/flow_pb.ts";
import { cellAt, estimateText, gridOf, trafficCsv } from "./traffic.ts";

const volume = (src: string, dst: string, estimatedPackets: number, more: Omit<MessageInitShape<typeof TrafficVolumeSchema>, "$typeName"> = {}): TrafficVolume =>
  create(TrafficVolumeSchema, { src, dst, packets: 10n, bytes: 1000n, estimatedPackets, estimatedBytes: 100 * estimatedPackets, scaling: "measured", ...more });

const volumes = [
  volume("a", "b", 100, { proto: "tcp", packetsError: 3, scaling: "scaled" }), volume("a", "b", 40, { proto: "udp", packetsError: 4, scaling: "scaled" }),
  volume("b", "a", 7, { scaling: "lower_bound" }), volume("c10", "b", 2), volume("c9", "a", 1),
];

it("puts the protocols of a pair together, and adds independent errors", () => {
  const grid = gridOf(volumes, "packets", 10);
  expect([grid.rows, grid.columns, grid.left]).toEqual([["a", "b", "c9", "c10"], ["a", "b"], 0]);
  expect(cellAt(grid, 0, 1)).toEqual({ value: 140, error: 5, bounded: false, packets: 20n });
  expect(cellAt(grid, 1, 0)).toMatchObject({ value: 7, bounded: true });
  expect(cellAt(grid, 0, 0)).toBeUndefined();
});

it("keeps the largest names", () => {
  const grid = gridOf(volumes, "bytes", 2);
  expect([grid.rows, grid.columns, grid.left]).toEqual([["a", "b"], ["a", "b"], 2]);
  expect(gridOf([], "bytes", 2)).toMatchObject({ rows: [], left: 0 });
});

it("writes estimates with their error, and lower bounds as such", () => {
  const [scaled, , bound, measured] = volumes as [TrafficVolume, TrafficVolume, TrafficVolume, TrafficVolume];
  expect([scaled, bound, measured].map((v) => estimateText(v, "packets"))).toEqual(["100 ± 3", "at least 7", "2"]);
  expect(trafficCsv([scaled]).split("\r\n")[1]).toBe("a,b,tcp,,,100,3,10000,0,10,1000,scaled");
});
