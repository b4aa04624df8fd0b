// A traced line has the same first, smallest, largest and last value in every pixel column.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { traced } from "./trace.ts";

let drawn: ["M" | "L", number, number][] = [];
beforeEach(() => {
  drawn = [];
  vi.stubGlobal("Path2D", class {
    moveTo = (x: number, y: number) => void drawn.push(["M", x, y]);
    lineTo = (x: number, y: number) => void drawn.push(["L", x, y]);
  });
});
afterEach(() => vi.unstubAllGlobals());

let seed = 5;
const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647;
const line = (values: number[], steps = false) => ({ label: "", colour: "", values, steps });
const y = (v: number) => v;

describe("traced", () => {
  for (const [name, points, gaps] of [["dense", 20000, 0], ["with gaps", 20000, 0.01], ["sparse", 50, 0.1]] as const) {
    it(`draws first, smallest, largest and last of every column: ${name}`, () => {
      const times = Array.from({ length: points }, (_, i) => i * 10);
      const values = times.map(() => (random() < gaps ? NaN : random() < 0.001 ? 1e6 * random() : random()));
      const wide = (points * 10) / 300;
      const columns = (list: [number, number][]) => {
        const found = new Map<number, number[]>();
        for (const [t, v] of list) found.set(Math.floor(t / wide), [...(found.get(Math.floor(t / wide)) ?? []), v]);
        return [...found].map(([c, vs]) => [c, vs[0], Math.min(...vs), Math.max(...vs), vs[vs.length - 1]]);
      };
      traced(line(values), Float64Array.from(times, (t) => t / wide), 0, points, y);
      const all = times.map((t, i): [number, number] => [t, values[i] ?? NaN]).filter(([, v]) => !Number.isNaN(v));
      expect(columns(drawn.map(([, x, y]) => [Math.round(x * wide), y]))).toEqual(columns(all));
      if (gaps === 0) expect(drawn.length).toBeLessThanOrEqual(4 * 300 + 1);
    });
  }
  it("breaks where values are missing, and draws a single value as a dot", () => {
    traced(line([1, 1.5, NaN, NaN, 2, NaN]), Float64Array.of(0, 1, 2, 3, 4, 5), 0, 6, y);
    expect(drawn).toEqual([["M", 0, 1], ["L", 0, 1], ["L", 1, 1.5], ["M", 4, 2], ["L", 4, 2]]);
  });
  it("holds a step until the next, a gap, or the end of its window", () => {
    traced(line([1, 2, NaN, 3], true), Float64Array.of(0, 10, 15, 25), 0, 4, y);
    expect(drawn.slice(1)).toEqual([["L", 0, 1], ["L", 10, 1], ["L", 10, 2], ["L", 15, 2], ["M", 25, 3], ["L", 25, 3], ["L", 35, 3]]);
  });
});
