// Ranges that gestures request.
import { describe, expect, it } from "vitest";
import { keyed, moved, pinched, zoomed } from "./gesture.ts";

const range = { from: 100000, to: 200000 };

describe("gestures", () => {
  it("zoom around a time, which keeps its position", () => expect(zoomed(range, 0.5, 120000)).toEqual({ from: 110000, to: 160000 }));
  it("zoom out around the middle", () => expect(zoomed(range, 2)).toEqual({ from: 50000, to: 250000 }));
  it("zoom no closer than a second", () => {
    const { from, to } = zoomed(range, 1e-9);
    expect(to - from).toBeCloseTo(1000, 6);
  });
  it("move", () => expect(moved(range, -0.1)).toEqual({ from: 90000, to: 190000 }));
  it("keep two fingers on their times", () => {
    const to = pinched([120000, 180000], [100, 700], 1000);
    expect(to).toEqual({ from: 110000, to: 210000 });
  });
  for (const [key, want] of [["ArrowRight", { from: 110000, to: 210000 }], ["+", { from: 125000, to: 175000 }], ["-", { from: 50000, to: 250000 }], ["Home", { from: 900000, to: 1000000 }], ["a", undefined]] as const) {
    it(`key ${key}`, () => expect(keyed(key, range, 1000000)).toEqual(want));
  }
});
