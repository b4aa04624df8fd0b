import { describe, expect, test } from "vitest";
import { lengthWords, pointsFor, queryOf, Sliding, spanOf } from "./span.ts";

const read = (text: string) => spanOf(new URLSearchParams(text));

test.each([
  ["", { live: true, length: 300e3 }],
  ["range=15m", { live: true, length: 900e3 }],
  ["range=30d", { live: true, length: 30 * 86400e3 }],
  ["range=90s", { live: true, length: 90e3 }],
  ["range=nonsense", { live: true, length: 300e3 }],
  ["range=0m", { live: true, length: 300e3 }],
  ["from=1000&to=5000", { live: false, from: 1000, to: 5000 }],
  ["from=5000&to=1000", { live: true, length: 300e3 }],
  ["to=5000", { live: true, length: 300e3 }],
])("the address %j", (text, span) => expect(read(text)).toEqual(span));

test.each(["range=15m", "range=90s", "from=1000&to=5000", ""])("%j round trip", (text) => {
  const query = new URLSearchParams();
  for (const [k, v] of Object.entries(queryOf(read(text)))) if (v !== undefined) query.set(k, String(v));
  expect(query.toString()).toBe(text);
});

test.each([[60e3, "1 min"], [90e3, "90 s"], [300e3, "5 min"], [5400e3, "90 min"], [86400e3, "1 d"], [1000, "1 s"], [500, "0.5 s"]])(
  "%d ms in words", (ms, words) => expect(lengthWords(ms)).toBe(words));

test("short ranges are requested in full resolution", () => {
  expect(pointsFor({ live: true, length: 300e3 })).toBe(300);
  expect(pointsFor({ live: false, from: 0, to: 30e3 })).toBe(300);
  expect(pointsFor({ live: true, length: 30 * 86400e3 })).toBe(480);
});

describe("sliding", () => {
  test("follows the windows, not the browser's clock", () => {
    const s = new Sliding();
    s.newest(1_000_000, 77_000);
    expect(s.to(1000, 77_000)).toBe(1_000_000);
    expect(s.to(1000, 77_900)).toBe(1_000_000);
    expect(s.to(1000, 78_800)).toBe(1_001_000);
  });
  test("a slightly late window does not move it twice", () => {
    const s = new Sliding();
    const edges: number[] = [];
    for (let i = 0; i < 5; i++) {
      const late = (i % 2) * 300;
      s.newest(100_000 + i * 1000, 50_000 + i * 1000 + late);
      for (let t = late; t < 1000; t += 100) edges.push(s.to(1000, 50_000 + i * 1000 + t));
    }
    expect([...new Set(edges)]).toEqual([100_000, 101_000, 102_000, 103_000, 104_000]);
  });
  test("old windows at the beginning of a stream do not define now", () => {
    const s = new Sliding();
    s.server(10_000_000, 0);
    s.newest(9_000_000, 0);
    expect(s.to(1000, 0)).toBe(10_000_000);
  });
  test("whole steps", () => {
    const s = new Sliding();
    s.newest(60_000, 0);
    expect(s.to(30_000, 1000)).toBe(60_000);
    expect(s.to(30_000, 31_000)).toBe(90_000);
  });
});
