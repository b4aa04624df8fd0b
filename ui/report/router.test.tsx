// The report of a router profile that package study/routerreport wrote in its test.
import { readFileSync } from "node:fs";
import { render } from "preact";
import { expect, test } from "vitest";
import { binned, isSteep, timeBuckets } from "./bins.ts";
import type { Profile } from "./profile.ts";
import { Report } from "./router.tsx";

const profile = JSON.parse(readFileSync("../study/routerreport/testdata/report.json", "utf8")) as Profile;

function drawn(of: Profile): HTMLElement {
  const box = document.createElement("main");
  render(<Report profile={of} />, box);
  return box;
}

test("the report has every part of a profile", () => {
  const box = drawn(profile);
  const text = box.textContent ?? "";
  for (const part of [
    "Router profile of <r>", "From <in> to out, half of the packets took up to", "<in> > out", "other pairs", "Other pairs", "NETFILTER_DROP nf_hook_slow", "not counted: filter", "incl. GRO hold",
    "Little's law", "Activity of the CPU", "process <task> 200 µs", "router_free", "bins of", "1 further segments",
  ]) expect(text).toContain(part);
  for (const bad of ["NaN", "Infinity", "undefined", "null", "router_idle", "[object"]) expect(box.innerHTML).not.toContain(bad);
  expect(box.querySelector("tr.bad")?.textContent).toContain("unexplained-1");
  // Three stages and two charts over time of each of eight pairs, one of the queue's sizes, one over time, three of breaks.
  expect(box.querySelectorAll("svg[role=img]").length).toBe(8 * 5 + 1 + 1 + 3);
});

test("an idle router has a report without charts", () => {
  const none = { count: 0, total_ns: 0, longest_ns: null, unsent: 0, causes: {}, length_ns: { count: 0, min: null, mean: null, p50: null, p90: null, p99: null, p999: null, max: null }, p50_packets_between: null };
  const summary = { ...profile.summary, forwarded: 0, seen: 0, pairs: [], queues: [], breaks: none, cost: null };
  const box = drawn({ ...profile, summary, hint: "nothing was forwarded", pairs: null, queues: null, intervals: [], breaks: { length: { bounds: null, counts: null }, between: null } });
  for (const part of ["No packet was forwarded.", "nothing was forwarded", "None detected", "Not measured (--no-costs)"]) expect(box.textContent).toContain(part);
  expect(box.querySelector("svg[role=img]")).toBeNull();
});

test("bins hold nearly all values, and say how many lie beyond", () => {
  const times = (min: number, max: number) => ({ count: 0, min, max, mean: 0, p50: 0, p90: 0, p99: 0, p999: 0 });
  const one = binned(timeBuckets({ bounds: [700], counts: [1] }, times(700, 700)), 200, 100);
  expect([one.width, one.edges.at(-1), one.beyond, isSteep(one)]).toEqual([5, 800, 0, true]);
  const spread = Array.from({ length: 1000 }, (_, i) => i);
  const far = binned([...spread.map((i) => ({ from: 100 * i, to: 100 * i + 1, count: 1 })), { from: 9e6, to: 9e6 + 1, count: 1 }], 200, 100);
  expect([far.width, far.edges.at(-1), far.beyond, isSteep(far)]).toEqual([1000, 150_000, 1, false]);
  expect(far.parts.reduce((a, b) => a + b, 0)).toBeCloseTo(1000 / 1001);
});
