// The layout of buckets against the probe's, and the split into rows.
import { describe, expect, it } from "vitest";
import { bucketAt, regroup, upperEdge } from "./bucket.ts";

// layout.bounds of probe/destination/distribution.go
function bounds(bucket: number, first: number, last: number, sub: number): [number, number] {
  const lines = 2 ** sub;
  if (bucket < lines) return [bucket * 2 ** (first - sub), (bucket + 1) * 2 ** (first - sub)];
  const regular = lines + (last - first) * lines;
  if (bucket >= regular) return [2 ** (last + bucket - regular), 2 ** (last + bucket - regular + 1)];
  const octave = first + Math.floor((bucket - lines) / lines);
  const low = 2 ** octave + ((bucket - lines) % lines) * 2 ** (octave - sub);
  return [low, low + 2 ** (octave - sub)];
}

describe("upperEdge", () => {
  it("is where the next bucket begins, from zero on", () => {
    for (let b = 0; b < 892 - 12; b++) {
      const [low, high] = bounds(b, 10, 36, 5);
      expect(upperEdge(low), `bucket ${b}`).toBe(high);
    }
  });
  it("is where the next bucket begins, below zero", () => {
    for (let b = 0; b < 233; b++) {
      const [low, high] = bounds(b, 8, 36, 3);
      expect(upperEdge(-high), `bucket ${b}`).toBe(0 - low);
    }
  });
});

describe("bucketAt", () => {
  const h = { bounds: [-32, 0, 1024, 2048], counts: [1, 1, 1, 1] };
  for (const [value, want] of [[-33, -1], [-32, 0], [-1, 0], [0, 1], [31, 1], [32, -1], [1030, 2], [1056, -1], [2111, 3], [2112, -1]] as const) {
    it(`${value} is in ${want}`, () => expect(bucketAt(h, value)).toBe(want));
  }
});

describe("regroup", () => {
  const plain = (v: number) => v;
  it("splits a bucket over the rows that it overlaps", () => {
    // 1024..1056 over rows of 20 from 1020
    expect([...regroup({ bounds: [1024], counts: [32] }, { height: plain, low: 1020, high: 1080, count: 3 })]).toEqual([16, 16, 0]);
  });
  it("adds up buckets that share a row", () => {
    expect([...regroup({ bounds: [0, 32, 64], counts: [1, 2, 4] }, { height: plain, low: 0, high: 192, count: 2 })]).toEqual([7, 0]);
  });
  it("loses no packet within the rows, on a logarithm too", () => {
    const values = Array.from({ length: 300 }, (_, b) => bounds(b + 40, 10, 36, 5)[0]);
    const counts = values.map((_, i) => (i * 7) % 13);
    const rows = regroup({ bounds: values, counts }, { height: Math.log10, low: Math.log10(500), high: 9, count: 97 });
    expect(rows.reduce((a, b) => a + b, 0)).toBeCloseTo(counts.reduce((a, b) => a + b, 0), 6);
  });
  it("bears what begins at zero on a logarithm", () => {
    const log = (v: number) => (v > 0 ? Math.log10(v) : -Infinity);
    const rows = regroup({ bounds: [0], counts: [10] }, { height: log, low: 0, high: 3, count: 6 });
    expect(rows.every((n) => Number.isFinite(n))).toBe(true);
    expect(rows[4]).toBe(0);
  });
});
