// The path of a sparkline.
import { expect, it } from "vitest";
import { sparkPath } from "./spark.tsx";

it("is broken at gaps and keeps a single value", () => expect(sparkPath([1, NaN, 2], 23, 13).match(/M/g)?.length).toBe(2));
it("shows a spike among many values", () => {
  const values = new Float64Array(5000).fill(1);
  values[2345] = 100;
  expect(sparkPath(values, 96, 22)).toContain(" 1.5");
});
it("is empty without values", () => expect(sparkPath([], 96, 22)).toBe(""));
it("stays within its box", () => {
  for (const [, y] of sparkPath([-5, 3, 900], 96, 22, 0, 10).matchAll(/ ([\d.-]+)/g)) {
    expect(Number(y)).toBeGreaterThanOrEqual(0);
    expect(Number(y)).toBeLessThanOrEqual(22);
  }
});
