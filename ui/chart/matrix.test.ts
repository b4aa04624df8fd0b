import { describe, expect, it } from "vitest";
import { moved } from "./matrix.tsx";
import { courseEnds, layoutOf, type Cells } from "./matrix-paint.ts";

const cells = (n: number, figures = false): Cells => {
  const names = Array.from({ length: n }, (_, i) => `h${i}`);
  return { rows: names, columns: names, palette: [], tone: () => 0, ...(figures && { figure: () => "" }) };
};

it("moves by keys, and stays inside", () => {
  const at = { row: 5, column: 5 };
  const press = (key: string, ctrlKey = false) => moved({ key, ctrlKey }, at, cells(12));
  expect(press("ArrowUp")).toEqual({ row: 4, column: 5 });
  expect(press("PageDown")).toEqual({ row: 11, column: 5 });
  expect(press("Home")).toEqual({ row: 5, column: 0 });
  expect(press("End", true)).toEqual({ row: 11, column: 11 });
  expect(press("a")).toBeUndefined();
});

describe("layoutOf", () => {
  const wide = (text: string) => text.length * 7;
  it("shows 200 hosts without scrolling on a desktop", () => {
    const l = layoutOf(cells(200), 1206, 900, false, wide);
    expect(l.left + 200 * l.cellWidth).toBeLessThanOrEqual(1206);
  });
  it("keeps cells large enough for a finger", () => expect(layoutOf(cells(200), 330, 600, true, wide).cellWidth).toBe(16));
  it("leaves space for figures", () => expect(layoutOf(cells(40, true), 1206, 900, false, wide).cellWidth).toBe(52));
});

describe("courseEnds", () => {
  it("does not magnify small changes", () => expect(courseEnds([100, 101])).toEqual([90.4, 110.6].map((v) => expect.closeTo(v, 0))));
  it("begins at zero if all values are zero", () => expect(courseEnds([0, NaN, 0])?.[0]).toBe(0));
  it("needs a value", () => expect(courseEnds([NaN])).toBeUndefined());
});
