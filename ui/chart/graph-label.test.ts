import { expect, it } from "vitest";
import { readable, type Label } from "./graph-label.ts";

const label = (id: string, left: number, top: number, weight = 0): Label => ({ id, left, top, width: 50, height: 14, weight });

it("shows names that do not overlap", () => {
  expect(readable([label("a", 0, 0), label("b", 60, 0), label("c", 0, 20)])).toEqual(new Set(["a", "b", "c"]));
});

it("shows the one with more weight of two that overlap", () => {
  expect(readable([label("a", 0, 0), label("b", 30, 5, 1)])).toEqual(new Set(["b"]));
});

it("finds overlaps across cells, and never shows overlapping names", () => {
  const labels = Array.from({ length: 400 }, (_, i) => label(`n${i}`, (i * 37) % 900, (i * 91) % 600, i % 7));
  const ids = readable(labels);
  const written = labels.filter((l) => ids.has(l.id));
  expect(written.length).toBeGreaterThan(50);
  for (const a of written) for (const b of written) if (a !== b) expect(Math.abs(a.left - b.left) >= 50 || Math.abs(a.top - b.top) >= 14).toBe(true);
});

it("covers no obstacle", () => {
  expect(readable([label("a", 0, 0, 1), label("b", 0, 30)], [{ left: 40, top: 4, width: 10, height: 10 }])).toEqual(new Set(["b"]));
});
