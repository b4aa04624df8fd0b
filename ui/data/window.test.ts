import { readFileSync } from "node:fs";
import { create, fromJson, type JsonValue } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { WindowSchema } from "../gen/flow_pb.ts";
import { figuresOf, lossIn, noHistogram, packetsIn, rateIn, sum } from "./window.ts";
import { quantile } from "./histogram.ts";
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
      figures(0, { packets: 10, lost: 1, expected: 11, delay: { count: 10, min: 1, mean: 10, p50: 10, p90: 10, p99: 10, max: 20, histogram: noHistogram } }),
      figures(1000, { packets: 30, lost: 0, expected: 30, delay: { count: 30, min: 5, mean: 20, p50: 20, p90: 20, p99: 20, max: 90, histogram: noHistogram } }),
    ]);
    expect(all).toMatchObject({ start: 0, packets: 40, lost: 1, expected: 41, delay: { count: 40, min: 1, max: 90, mean: 17.5 } });
  });
  test("quantiles come from the histograms", () => {
    const spread = (bound: number, count: number) => ({ ...figures(0).delay, count, min: bound, max: bound + 1, histogram: { bounds: [bound], counts: [count] } });
    const [low, high] = [figures(0, { delay: spread(100, 90) }), figures(1000, { delay: spread(992, 10) })];
    const all = sum([low, high]);
    expect(all?.delay.p50).toBeGreaterThanOrEqual(100);
    expect(all?.delay.p50).toBeLessThanOrEqual(102);
    expect(all?.delay.p99).toBeGreaterThanOrEqual(992);
    expect(all?.delay.p99).toBeLessThanOrEqual(993);
  });
  test("an unknown clock error stays unknown", () => {
    const error = (...list: number[]) => sum(list.map((clockError, i) => figures(1000 * i, { clockError })))?.clockError;
    expect([error(5, 7), error(5, NaN), error(NaN, 5)]).toEqual([7, NaN, NaN]);
  });
  test("no windows have no sum", () => expect(sum([])).toBeUndefined());
});

// The rows behind these windows are also summed by the API, the CLI and the archive, with the same total.
describe("figures of measure/flows/testdata", () => {
  const file = JSON.parse(readFileSync("../measure/flows/testdata/figures.json", "utf8")) as { windows: JsonValue[]; total: JsonValue };
  const windows = file.windows.map((w) => figuresOf(fromJson(WindowSchema, w)));
  test("windows add up to the same total", () => {
    const { delay, ipdv, ...counts } = figuresOf(fromJson(WindowSchema, file.total));
    const all = sum(windows);
    expect(all).toMatchObject(counts);
    for (const [got, want] of [[all?.delay, delay], [all?.ipdv, ipdv]]) {
      expect({ ...got, mean: 0, histogram: 0 }).toEqual({ ...want, mean: 0, histogram: 0 });
      expect(got?.mean).toBeCloseTo(want?.mean ?? NaN, 6);
    }
  });
  test("quantiles of a window are those of its histogram", () => {
    for (const { delay, ipdv } of windows) {
      for (const d of [delay, ipdv].filter(({ count }) => count > 0)) {
        expect([0.5, 0.9, 0.99].map((q) => quantile(d.histogram, q, d.min, d.max))).toEqual([d.p50, d.p90, d.p99]);
      }
    }
  });
});
