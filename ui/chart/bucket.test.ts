// Histograms split into rows.
import { describe, expect, it } from "vitest";
import { bucketWidth } from "../data/histogram.ts";
import { bucketAt, regroup } from "./bucket.ts";

describe("bucketAt", () => {
  const h = { bounds: [-64, 0, 1024, 2048], counts: [1, 1, 1, 1] };
  for (const [value, want] of [[-65, -1], [-64, 0], [-63, -1], [0, 1], [0.9, 1], [1, -1], [1030, 2], [1056, -1], [2111, 3], [2112, -1]] as const) {
    it(`${value} is in ${want}`, () => expect(bucketAt(h, value)).toBe(want));
  }
});

describe("regroup", () => {
  const spread = (low: number, high: number, count: number, height = (v: number) => v) => ({ count, place: (v: number) => (height(v) - low) * (count / (high - low)) });
  it("splits a bucket over the rows that it overlaps", () => {
    // 1024..1056 over rows of 20 from 1020
    expect([...regroup({ bounds: [1024], counts: [32] }, spread(1020, 1080, 3))]).toEqual([16, 16, 0]);
  });
  it("adds up buckets that share a row", () => {
    expect([...regroup({ bounds: [0, 32, 63], counts: [1, 2, 4] }, spread(0, 128, 2))]).toEqual([7, 0]);
  });
  it("loses no packet within the rows, also on a logarithmic axis", () => {
    const values = [512];
    while (values.length < 300) values.push((values.at(-1) ?? 0) + bucketWidth(values.at(-1) ?? 0));
    const counts = values.map((_, i) => (i * 7) % 13);
    const rows = regroup({ bounds: values, counts }, spread(Math.log10(500), 9, 97, Math.log10));
    expect(rows.reduce((a, b) => a + b, 0)).toBeCloseTo(counts.reduce((a, b) => a + b, 0), 6);
  });
  it("draws a bucket that begins at zero on a logarithmic axis", () => {
    const log = (v: number) => (v > 0 ? Math.log10(v) : -Infinity);
    const rows = regroup({ bounds: [0], counts: [10] }, spread(0, 3, 6, log));
    expect(rows.every((n) => Number.isFinite(n))).toBe(true);
    expect(rows[4]).toBe(0);
  });
});
