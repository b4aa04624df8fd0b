// Extents of columns against the line itself, point by point.
import { describe, expect, it } from "vitest";
import { Columns } from "./columns.ts";
import type { Line } from "./plot.ts";
import { within } from "./ends.ts";

let seed = 1;
const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647;
const line = (values: ArrayLike<number>, steps = false): Line => ({ label: "", values, colour: "--out", steps });

function read(times: ArrayLike<number>, lines: Line[], range: { from: number; to: number }, width: number, columns = new Columns(width, lines.length)): Columns {
  columns.update(times, lines, range, ...within(times, range));
  return columns;
}

function extents(columns: Columns, k: number): [number, number][] {
  return Array.from({ length: columns.width }, (_, c) => {
    const place = k * columns.width + columns.slot(columns.first + c);
    return [columns.low[place] ?? NaN, columns.high[place] ?? NaN];
  });
}

// What a column must cover: its own values and where the line crosses its edges.
function expected(times: number[], values: number[], from: number, wide: number, width: number): [number, number][] {
  const found = Array.from({ length: width }, (): [number, number] => [Infinity, -Infinity]);
  const add = (c: number, v: number) => {
    const e = found[c];
    if (!e) return;
    e[0] = Math.min(e[0], v);
    e[1] = Math.max(e[1], v);
  };
  times.forEach((t, i) => {
    const v = values[i] ?? NaN;
    if (Number.isNaN(v)) return;
    const c = Math.floor((t - from) / wide);
    add(c, v);
    const before = values[i - 1] ?? NaN;
    const tb = times[i - 1] ?? 0;
    if (Number.isNaN(before)) return;
    for (let edge = Math.floor((tb - from) / wide) + 1; edge <= c; edge++) {
      const at = before + ((v - before) * (edge * wide + from - tb)) / (t - tb);
      add(edge - 1, at);
      add(edge, at);
    }
  });
  return found;
}

describe("Columns", () => {
  for (const [name, points, gaps] of [["many points to a column", 5000, 0], ["few", 130, 0], ["less than one", 23, 0], ["with gaps", 5000, 0.02], ["few, with gaps", 90, 0.2]] as const) {
    it(`keeps least and largest of every column: ${name}`, () => {
      const span = 600000;
      const times = Array.from({ length: points }, (_, i) => Math.floor((i * span) / points));
      const values = times.map(() => (random() < gaps ? NaN : random() < 0.01 ? 1000 * random() : random()));
      const got = extents(read(times, [line(values)], { from: 0, to: span }, 200), 0);
      expected(times, values, 0, span / 200, 200).forEach(([low, high], c) => {
        if (low === Infinity) expect(got[c], `column ${c}`).toEqual([Infinity, -Infinity]);
        else {
          expect(got[c]?.[0], `column ${c}`).toBeCloseTo(low, 9);
          expect(got[c]?.[1], `column ${c}`).toBeCloseTo(high, 9);
        }
      });
    });
  }

  it("holds a step until the next value, and the last for one window", () => {
    const got = extents(read([0, 40, 80], [line([1, 3, 2], true)], { from: 0, to: 160 }, 16), 0);
    expect(got.slice(0, 5)).toEqual([[1, 1], [1, 1], [1, 1], [1, 1], [1, 3]]);
    expect(got.slice(5, 9)).toEqual([[3, 3], [3, 3], [3, 3], [2, 3]]);
    expect(got.slice(9, 13)).toEqual([[2, 2], [2, 2], [2, 2], [Infinity, -Infinity]]);
  });

  for (const steps of [false, true]) {
    it(`is the same after many small updates as after one, steps ${steps}`, () => {
      const width = 150;
      const make = (t: number) => (random() < 0.05 ? NaN : Math.sin(t) + random());
      let times = Array.from({ length: 400 }, (_, i) => i * 1000);
      let all = [0, 1, 2].map(() => times.map(make));
      let range = { from: 0, to: 400000 };
      const columns = read(times, all.map((v) => line(v, steps)), range, width);
      for (let update = 0; update < 60; update++) {
        const add = update % 7;
        const end = (times[times.length - 1] ?? 0) + 1000;
        const cut = update % 3;
        const fresh = Array.from({ length: add }, (_, i) => end + i * 1000);
        times = [...times.slice(cut), ...fresh];
        all = all.map((v, k) => {
          const next = [...v.slice(cut), ...fresh.map(make)];
          // a window that comes late, or grows
          if (update % 5 === k) next[next.length - 1 - Math.floor(random() * 40)] = random();
          return next;
        });
        const by = update % 11 === 0 ? -9000 : add * 1000;
        range = { from: range.from + by, to: range.to + by };
        const lines = all.map((v) => line(v, steps));
        columns.dirty.fill(0);
        const before = all.map((_, k) => extents(columns, k));
        const first = columns.first;
        read(times, lines, range, width, columns);
        const fresher = read(times, lines, range, width);
        for (const k of [0, 1, 2]) {
          const got = extents(columns, k);
          // at the edges the points just outside are not the same ones
          expect(got.slice(8, -1), `update ${update}, line ${k}`).toEqual(extents(fresher, k).slice(8, -1));
          got.forEach((e, c) => {
            const old = before[k]?.[c + columns.first - first];
            if (!old || old[0] !== e[0] || old[1] !== e[1]) expect(columns.dirty[columns.slot(columns.first + c)], `update ${update}, column ${c}`).toBe(1);
          });
        }
      }
    });
  }
});
