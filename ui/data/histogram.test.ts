// The golden vectors of measure/histogram, shared with Go, C and Python.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { bucketWidth, merge, quantile, type Histogram } from "./histogram.ts";

type Lists = { bounds: number[]; counts: number[]; offsets: number[] | null };

const vectors = <V>(name: string): V[] => JSON.parse(readFileSync(`../measure/histogram/testdata/${name}.json`, "utf8")) as V[];
const histogram = ({ bounds, counts, offsets }: Lists): Histogram => ({ bounds, counts, offsets: offsets ?? undefined });

test("buckets are those of the layout", () => {
  for (const v of vectors<{ value: string; bound: string; width: string }>("layout")) {
    const value = Number.isSafeInteger(Number(v.value)) ? Number(v.value) : Number(v.bound); // the nearest double
    const width = bucketWidth(value);
    expect([v.value, width, Math.floor(value / width) * width]).toEqual([v.value, Number(v.width), Number(v.bound)]);
  }
});

test.each(vectors<Lists & { name: string; min: number | null; max: number | null; quantiles: { q: number; value: number | null }[] }>("quantiles"))("quantiles: $name", (v) => {
  const got = v.quantiles.map(({ q }) => quantile(histogram(v), q, v.min ?? -Infinity, v.max ?? Infinity));
  expect(got).toEqual(v.quantiles.map(({ value }) => value ?? NaN));
});

test.each(vectors<{ name: string; parts: Lists[]; whole: Lists }>("merges"))("merged: $name", ({ parts, whole }) =>
  expect(merge(parts.map(histogram))).toEqual(histogram(whole)));
