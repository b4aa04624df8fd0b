import { describe, expect, it } from "vitest";
import { Calm, placeIn, spanOf, valueAt, type Span } from "./range.ts";

describe("spanOf", () => {
  const rows: { name: string; values: number[]; want: Span | undefined }[] = [
    { name: "nothing", values: [], want: undefined },
    { name: "nothing measured", values: [NaN, NaN], want: undefined },
    { name: "one value", values: [5.1e6], want: { low: 5e6, high: 1e7, log: false } },
    { name: "a round value", values: [2e6], want: { low: 2e6, high: 2e6, log: false } },
    { name: "noise", values: [5.1e6, 5.2e6, 5.3e6], want: { low: 5e6, high: 1e7, log: false } },
    { name: "wide", values: [1.5e5, 8e7], want: { low: 1e5, high: 1e8, log: true } },
    { name: "one outlier of many", values: [...Array<number>(200).fill(3e6), 9e12], want: { low: 2e6, high: 5e6, log: false } },
    { name: "negative", values: [-3e5, 7e5], want: { low: -1e6, high: 1e6, log: false } },
    { name: "zero", values: [0, 0], want: { low: 0, high: 1, log: false } },
  ];
  for (const row of rows) it(row.name, () => expect(spanOf(row.values)).toEqual(row.want));
});

describe("Calm", () => {
  const span = (low: number, high: number): Span => ({ low, high, log: high / low > 20 });
  it("widens at once", () => {
    const calm = new Calm();
    calm.next(span(1, 2));
    expect(calm.next(span(1, 50))).toEqual(span(1, 50));
    expect(calm.next(span(0.5, 2))).toEqual(span(0.5, 50));
  });
  it("narrows after a delay", () => {
    const calm = new Calm();
    calm.next(span(1, 50));
    for (let i = 0; i < 14; i++) expect(calm.next(span(1, 2))?.high).toBe(50);
    expect(calm.next(span(1, 2))?.high).toBe(2);
  });
  it("keeps its range while nothing is measured", () => {
    const calm = new Calm();
    calm.next(span(1, 2));
    expect(calm.next(undefined)).toEqual(span(1, 2));
  });
});

it("places values", () => {
  const log = { low: 1, high: 100, log: true };
  expect(placeIn(log, 10)).toBeCloseTo(0.5);
  expect(valueAt(log, 0.5)).toBeCloseTo(10);
  expect(placeIn(log, -4)).toBe(0);
  expect(placeIn({ low: 0, high: 10, log: false }, 20)).toBe(1);
  expect(placeIn({ low: 2, high: 2, log: false }, 2)).toBe(0);
});
