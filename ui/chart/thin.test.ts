// A thinned line has the same least and largest value in every column of pixels.
import { describe, expect, it } from "vitest";
import { indexAt, nearest, thin } from "./thin.ts";

let seed = 5;
const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647;

describe("thin", () => {
  for (const [name, points, gaps] of [["dense", 20000, 0], ["with gaps", 20000, 0.01], ["sparse", 50, 0.1]] as const) {
    it(`keeps first, least, largest and last of every column: ${name}`, () => {
      const times = Array.from({ length: points }, (_, i) => i * 10);
      const values = times.map(() => (random() < gaps ? NaN : random() < 0.001 ? 1e6 * random() : random()));
      const wide = (points * 10) / 300;
      const kept = thin(times, values, 0, points, 0, wide);
      const columns = (indices: number[]) => {
        const found = new Map<number, number[]>();
        for (const i of indices) {
          const v = values[i] ?? NaN;
          if (Number.isNaN(v)) continue;
          const c = Math.floor((times[i] ?? 0) / wide);
          found.set(c, [...(found.get(c) ?? []), v]);
        }
        return [...found].map(([c, vs]) => [c, vs[0], Math.min(...vs), Math.max(...vs), vs[vs.length - 1]]);
      };
      expect(columns(kept)).toEqual(columns(times.map((_, i) => i)));
      expect(kept).toEqual([...new Set(kept)].sort((a, b) => a - b));
      if (gaps === 0) expect(kept.length).toBeLessThanOrEqual(4 * 300);
    });
  }
  it("breaks where values are missing, once for each gap", () => {
    expect(thin([0, 1, 2, 3, 4, 5], [1, NaN, NaN, 2, NaN, 3], 0, 6, 0, 1)).toEqual([0, 1, 3, 4, 5]);
  });
});

describe("indexAt and nearest", () => {
  const times = [10, 20, 30];
  for (const [t, at, near] of [[5, 0, 0], [10, 0, 0], [14, 1, 0], [16, 1, 1], [30, 2, 2], [99, 3, 2]] as const) {
    it(`${t}`, () => expect([indexAt(times, t), nearest(times, t)]).toEqual([at, near]));
  }
  it("nothing is near in no times", () => expect(nearest([], 1)).toBe(-1));
});
