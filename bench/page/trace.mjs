// Times from a trace of the browser (devtools.timeline).

// script tasks in a trace; nested ones count once
const script = new Set(["FunctionCall", "EvaluateScript", "RunMicrotasks", "FireAnimationFrame", "TimerFire", "EventDispatch", "HandlePostMessage", "MajorGC", "MinorGC", "V8.GCScavenger"]);
const tasks = new Set(["RunTask", "ThreadControllerImpl::RunTask"]);

/**
 * Script and whole tasks of the main thread, ms, from the mark of each update to a time later (the
 * next update, at most 200 ms): all frames of an update count as one. script and task are by the
 * clock, cpu is the processor time of the script, longest that of its longest task.
 */
export function perUpdate(events, pace) {
  const marks = events.filter((e) => e.name === "bench-step" && e.cat.includes("user_timing"));
  const mine = events.filter((e) => e.tid === marks[0]?.tid && e.pid === marks[0]?.pid && e.ph === "X" && e.dur > 0);
  const window = Math.min(200, pace) * 1000;
  return marks.map(({ ts }) => {
    const inside = mine.filter((e) => e.ts + e.dur > ts && e.ts < ts + window);
    const scripts = inside.filter((e) => script.has(e.name));
    return {
      script: covered(scripts, ts), cpu: processor(scripts, ts), task: covered(inside.filter((e) => tasks.has(e.name)), ts),
      longest: Math.max(0, ...scripts.map((e) => processor([e], ts))),
    };
  });
}

/** Processor time of events from a time on, ms; that of other programs is excluded. */
function processor(events, from) {
  return sum(events, from, (e, part) => (e.tdur ?? e.dur) * (part / e.dur));
}

/** Time covered by events from a time on, ms. */
function covered(events, from) {
  return sum(events, from, (_, part) => part);
}

// Adds up what of each event is behind the ones before it.
function sum(events, from, weight) {
  let total = 0;
  let end = from;
  for (const e of [...events].sort((a, b) => a.ts - b.ts)) {
    const stop = e.ts + e.dur;
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
