import { expect, it } from "vitest";
import { figuresOf } from "./minute.ts";
import { PairTable } from "./pair-table.ts";

it("adds up the seconds of the last minute", () => {
  const table = new PairTable();
  const second = (start: number, lost: number, agents: string[] = []) => table.take({
    startMs: start * 1000, agents, sources: [0, 1], destinations: [1, 0], packets: [10, 20], expected: [10, 20], lost: [lost, 0],
    p50Ns: [5000 + start, NaN], p99Ns: [9000, NaN], rate: [1, 1], clockErrorNs: [0, 0],
  });
  for (let start = 100; start < 190; start++) second(start, start === 120 || start === 150 ? 3 : 0, start === 100 ? ["a", "b"] : []);
  expect(figuresOf(table)).toEqual(new Map([
    ["a>b", { expected: 600, lost: 3, median: 5189 }],
    ["b>a", { expected: 1200, lost: 0, median: NaN }],
  ]));
});
