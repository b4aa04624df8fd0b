import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { WindowSchema } from "../gen/flow_pb.ts";
import { bucketEnd, figuresOf, lossIn, packetsIn, quantile, rateIn, sum } from "./window.ts";
import { figures } from "./window.fixture.ts";

test("a window's message becomes numbers", () => {
  const f = figuresOf(create(WindowSchema, { startMs: 1000n, packets: 20n, bytes: 2000n, expected: 10n, lost: 1n, clockErrorNs: NaN, delay: { count: 20n, p50Ns: 5e6 } }));
  expect(f.start).toBe(1000);
  expect(lossIn(f)).toBeCloseTo(0.1);
  expect(rateIn(f, 1000)).toBe(16000);
  expect(packetsIn(f, 2000)).toBe(10);
  expect(f.delay.p50).toBe(5e6);
  expect(f.ipdv.p90).toBeNaN();
});

describe("adding up", () => {
  test("counts are added, extremes kept, means weighted", () => {
    const all = sum([
      figures(0, { packets: 10, lost: 1, expected: 11, delay: { count: 10, min: 1, mean: 10, p50: 10, p90: 10, p99: 10, max: 20 } }),
      figures(1000, { packets: 30, lost: 0, expected: 30, delay: { count: 30, min: 5, mean: 20, p50: 20, p90: 20, p99: 20, max: 90 } }),
    ]);
    expect(all).toMatchObject({ start: 0, packets: 40, lost: 1, expected: 41, delay: { count: 40, min: 1, max: 90, mean: 17.5 } });
  });
  test("quantiles come from the histograms", () => {
    const low = figures(0, { bounds: [100], counts: [90] });
    const high = figures(1000, { bounds: [1000], counts: [10] });
    low.delay = { ...low.delay, count: 90, min: 100, max: 101 };
    high.delay = { ...high.delay, count: 10, min: 1000, max: 1010 };
    const all = sum([low, high]);
    expect(all?.delay.p50).toBeGreaterThanOrEqual(100);
    expect(all?.delay.p50).toBeLessThanOrEqual(102);
    expect(all?.delay.p99).toBeGreaterThanOrEqual(1000);
    expect(all?.delay.p99).toBeLessThanOrEqual(1010);
  });
  test("an unknown clock stays unknown", () => {
    expect(sum([figures(0, { clockError: 5 }), figures(1000, { clockError: NaN })])?.clockError).toBeNaN();
  });
  test("nothing gives nothing", () => expect(sum([])).toBeUndefined());
});

test.each([[0, 1], [63, 64], [64, 66], [126, 128], [128, 132], [-64, -63], [-66, -64], [-128, -126], [-132, -128]])(
  "the bucket from %d ends at %d", (bound, end) => expect(bucketEnd(bound)).toBe(end));

test("a quantile of nothing is nothing", () => expect(quantile([], [], 0.5)).toBeNaN());
