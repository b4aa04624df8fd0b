// Times from a trace of the browser (devtools.timeline).

// script tasks in a trace; nested ones count once
const script = new Set(["FunctionCall", "EvaluateScript", "RunMicrotasks", "FireAnimationFrame", "TimerFire", "EventDispatch", "HandlePostMessage", "MajorGC", "MinorGC", "V8.GCScavenger"]);
const tasks = new Set(["RunTask", "ThreadControllerImpl::RunTask"]);

/**
 * Script and whole tasks of the main thread, ms, from the mark "bench-step" of each update until
 * "bench-data", where the data of the next one are made: all frames of an update count as one. script
 * and task are by the clock, cpu is the processor time of the script, longest that of its longest task.
 */
export function perUpdate(events) {
  const marks = (name) => events.filter((e) => e.name === name && e.cat.includes("user_timing"));
  const steps = marks("bench-step");
  const ends = marks("bench-data").map((e) => e.ts);
  const mine = events.filter((e) => e.tid === steps[0]?.tid && e.pid === steps[0]?.pid && e.ph === "X" && e.dur > 0);
  return steps.map(({ ts: from }) => {
    const until = Math.min(...ends.filter((ts) => ts > from));
    const inside = mine.filter((e) => e.ts + e.dur > from && e.ts < until);
    const scripts = inside.filter((e) => script.has(e.name));
    return {
      script: sum(scripts, from, until, clock), cpu: sum(scripts, from, until, processor),
      task: sum(inside.filter((e) => tasks.has(e.name)), from, until, clock),
      longest: Math.max(0, ...scripts.map((e) => sum([e], from, until, processor))),
    };
  });
}

// Time of a part of an event; processor time excludes other programs.
const clock = (_, part) => part;
const processor = (e, part) => (e.tdur ?? e.dur) * (part / e.dur);

// Adds up what of each event is in a time and behind the events before it; ms.
function sum(events, from, until, weight) {
  let total = 0;
  let end = from;
  for (const e of [...events].sort((a, b) => a.ts - b.ts)) {
    const stop = Math.min(e.ts + e.dur, until);
    if (stop <= end) continue; // nested
    total += weight(e, stop - Math.max(e.ts, end));
    end = stop;
  }
  return total / 1000;
}

/** Median, 95th percentile and maximum of a list. */
export function spread(list) {
  const sorted = [...list].sort((a, b) => a - b);
  const at = (q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? NaN;
  return { median: at(0.5), p95: at(0.95), worst: at(1) };
}

/** Processor time of the longest task of the main threads of pages, ms. */
export function longestTask(events) {
  const main = new Set(events.filter((e) => e.name === "thread_name" && e.args?.name === "CrRendererMain").map((e) => `${e.pid} ${e.tid}`));
  return Math.max(0, ...events.filter((e) => e.ph === "X" && tasks.has(e.name) && main.has(`${e.pid} ${e.tid}`)).map((e) => (e.tdur ?? e.dur) / 1000));
}
