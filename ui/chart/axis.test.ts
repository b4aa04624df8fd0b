// Ticks and their labels, and where axes end.
import { describe, expect, it } from "vitest";
import { duration, rate, share } from "../data/quantity.ts";
import { timeLabels, valueLabels } from "./axis.ts";
import { axisEnds, indexAt, nearest } from "./ends.ts";
import { binary, bothSides, linearTicks, logTicks, roundUp } from "./scale.ts";

const at = (h: number, m: number, s = 0, day = 21) => new Date(2026, 10, day, h, m, s).getTime();

describe("timeLabels", () => {
  it("has the date below the first tick and at a new day", () => {
    expect(timeLabels([at(23, 59), at(0, 0, 0, 22), at(0, 1, 0, 22)], 60e3)).toEqual(["23:59\n21 Nov", "00:00\n22 Nov", "00:01"]);
  });
  it("has seconds where the step needs them", () => expect(timeLabels([at(8, 0, 5), at(8, 0, 10)], 5000)).toEqual(["08:00:05\n21 Nov", "08:00:10"]));
  it("has parts of seconds", () => expect(timeLabels([at(8, 0, 5) + 250], 50)).toEqual(["08:00:05.250\n21 Nov"]));
  it("has days alone", () => expect(timeLabels([at(0, 0), at(0, 0, 0, 22)], 86400e3)).toEqual(["21 Nov", "22 Nov"]));
});

describe("valueLabels", () => {
  it("omits trailing zeros", () => expect(valueLabels([0, 5e6, 1e7, 1.25e7], duration)).toEqual(["0", "5 ms", "10 ms", "12.5 ms"]));
  it("keeps significant zeros", () => expect(valueLabels([1e8, 2e8], duration)).toEqual(["100 ms", "200 ms"]));
  it("keeps the unit of shares", () => expect(valueLabels([0, 0.01], share)).toEqual(["0 %", "1 %"]));
  it("distinguishes close values by their distance", () => expect(valueLabels([5.1e6, 5.101e6, 5.102e6], duration)).toEqual(["5.1 ms", "+1 µs", "+2 µs"]));
  it("repeats no label", () => expect(valueLabels([1, 1.1, 1.2], duration)).toEqual(["1 ns", "", ""]));
  it("knows rates", () => expect(valueLabels([0, 2e7], rate)).toEqual(["0", "20 Mbit/s"]));
});

describe("ticks", () => {
  it("are round", () => expect(linearTicks(0, 0.9, 4)).toEqual([0, 0.5]));
  it("are clean", () => expect(linearTicks(0, 0.31, 4)).toEqual([0, 0.1, 0.2, 0.3]));
  it("include zero", () => expect(linearTicks(-2, 4, 6)).toEqual([-2, -1, 0, 1, 2, 3, 4]));
  it("of a logarithmic axis, with space for many", () => expect(logTicks(1, 100, 8)).toEqual([1, 2, 5, 10, 20, 50, 100]));
  it("of a logarithmic axis, with space for few", () => expect(logTicks(1, 1000, 8)).toEqual([1, 3, 10, 30, 100, 300, 1000]));
  it("of a logarithmic axis over many decades", () => expect(logTicks(1, 1e9, 4).length).toBeLessThanOrEqual(4));
  it("of a logarithmic axis over a short range", () => expect(logTicks(5.1, 5.4, 4).length).toBeGreaterThanOrEqual(3));
  it("round up", () => expect([0.7, 1, 1.1, 3, 7].map(roundUp)).toEqual([1, 1, 2, 5, 10]));
  it("of bytes are round in their unit", () => expect(binary.ticks(0, 1.8 * 2 ** 30, 4)).toEqual([0, 2 ** 29, 2 ** 30, 1.5 * 2 ** 30]));
  it("of both sides of zero", () => expect(bothSides(10).ticks(-100, 1000, 8)).toContain(0));
});

describe("axisEnds", () => {
  it("begins at zero and ends above the largest", () => expect(axisEnds(3, 9.7, "zero")).toEqual([0, 12]));
  it("stays while values change a little", () => expect(axisEnds(3, 9.7, "zero")).toEqual(axisEnds(2, 10.5, "zero")));
  it("is not filled by noise", () => expect(axisEnds(0, 0.0002, "zero", 0.01)).toEqual([0, 0.01]));
  it("shows what is below zero", () => expect(axisEnds(-2, 5, "zero")[0]).toBeLessThan(-2));
  it("leaves space around a flat line", () => {
    for (const scale of ["zero", "fit"] as const) {
      const [low, high] = axisEnds(7, 7, scale);
      expect(low).toBeLessThan(7);
      expect(high).toBeGreaterThan(7);
    }
  });
  it("fits", () => expect(axisEnds(5.1, 5.4, "fit")[0]).toBeGreaterThan(4.9));
  it("of a logarithmic axis are above zero", () => expect(axisEnds(3, 700, "log")).toEqual([2, 1000]));
  it("are valid without values", () => {
    for (const scale of ["zero", "fit", "log"] as const) {
      const [low, high] = axisEnds(Infinity, -Infinity, scale);
      expect(high).toBeGreaterThan(low);
    }
  });
});

describe("indexAt and nearest", () => {
  const times = [10, 20, 30];
  for (const [t, at, near] of [[5, 0, 0], [10, 0, 0], [14, 1, 0], [16, 1, 1], [30, 2, 2], [99, 3, 2]] as const) {
    it(`${t}`, () => expect([indexAt(times, t), nearest(times, t)]).toEqual([at, near]));
  }
  it("nothing is near in an empty list", () => expect(nearest([], 1)).toBe(-1));
});
