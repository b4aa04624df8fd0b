import assert from "node:assert/strict";
import { test } from "node:test";

import { longestTask, perUpdate, spread } from "./trace.mjs";

const main = { pid: 1, tid: 2 };
const mark = (name, ts) => ({ ...main, name, cat: "blink.user_timing", ph: "R", ts });
const event = (name, ts, dur, more = {}) => ({ ...main, name, cat: "devtools.timeline", ph: "X", ts, dur, ...more });

test("nested and overlapping events count once, other threads and times do not", () => {
  const [first, second, ...rest] = perUpdate([
    mark("bench-data", 990_000), mark("bench-step", 1_000_000), mark("bench-data", 1_240_000), mark("bench-step", 1_250_000),
    event("RunTask", 995_000, 10_000), // half of it before the mark
    event("FunctionCall", 1_001_000, 4_000, { tdur: 3_000 }),
    event("RunMicrotasks", 1_002_000, 1_000, { tdur: 900 }), // nested
    event("FunctionCall", 1_004_000, 2_000, { tdur: 2_000 }), // half of it overlaps
    event("Layout", 1_008_000, 5_000), // no script
    event("FunctionCall", 1_010_000, 5_000, { tid: 3 }),
    event("TimerFire", 1_239_000, 12_000, { tdur: 6_000 }), // makes the next data after 1 ms
    event("TimerFire", 1_260_000, 7_000), // without a processor time
  ]);
  assert.deepEqual(rest, []);
  assert.deepEqual(first, { script: 6, cpu: 4.5, task: 5, longest: 3 });
  assert.deepEqual(second, { script: 8, cpu: 7.5, task: 0, longest: 7 });
});

test("without marks there are no updates", () => {
  assert.deepEqual(perUpdate([event("FunctionCall", 1, 2)]), []);
});

test("spread", () => {
  assert.deepEqual(spread(Array.from({ length: 100 }, (_, i) => 100 - i)), { median: 51, p95: 96, worst: 100 });
  assert.deepEqual(spread([7]), { median: 7, p95: 7, worst: 7 });
});

test("the longest task is one of a page's main thread, in processor time", () => {
  const name = { ...main, name: "thread_name", ph: "M", args: { name: "CrRendererMain" } };
  assert.equal(longestTask([name, event("RunTask", 1, 90_000, { tdur: 40_000 }), event("RunTask", 2, 50_000), event("RunTask", 3, 99_000, { tid: 9 }), event("Layout", 4, 99_000)]), 50);
  assert.equal(longestTask([]), 0);
});
