import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { WindowSchema } from "../gen/flow_pb.ts";
import { total } from "./runs.ts";

const window = (packets: number, lost: number, p50Ns: number, boundsNs: number[] = [], counts: number[] = []) =>
  create(WindowSchema, { packets: BigInt(packets), expected: BigInt(packets + lost), lost: BigInt(lost), delay: { p50Ns, p99Ns: 2 * p50Ns }, boundsNs, counts });

it("takes the quantiles of one window as they are", () => {
  expect(total([window(10, 1, 5e6)])).toEqual({ packets: 10, expected: 11, lost: 1, p50: 5e6, p99: 1e7 });
});

it("adds several up, with their histograms", () => {
  const sum = total([window(90, 1, 1, [1000], [90]), window(10, 2, 1, [1000, 9000], [5, 5])]);
  expect(sum).toMatchObject({ packets: 100, expected: 103, lost: 3 });
  expect(sum.p50).toBeCloseTo(1016);
  expect(sum.p99).toBeCloseTo(9144);
});

it("has no delay where nothing was measured", () => expect(total([])).toEqual({ packets: 0, expected: 0, lost: 0, p50: Number.NaN, p99: Number.NaN }));
