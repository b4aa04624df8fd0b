// Measures the page's charts in Chromium: how long until the first drawing of 200
// lines of 3,600 points, and the script time of each frame while they are live. Script time
// is from the browser's own trace (devtools.timeline) and includes drawing commands.
// Results: bench/results/page.json, figures of one machine.
//
//   node bench/page/run.mjs [--runs 5] [--updates 60] [--pace 250] [--out FILE]
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { loadavg, tmpdir, cpus } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = fileURLToPath(new URL(".", import.meta.url));
const ui = join(here, "../../ui");
const { build } = await import(join(ui, "node_modules/vite/dist/node/index.js"));
const { chromium } = await import(join(ui, "node_modules/playwright-core/index.mjs"));

const { values: flags } = parseArgs({
  options: {
    runs: { type: "string", default: "5" },
    updates: { type: "string", default: "60" },
    pace: { type: "string", default: "250" },
    out: { type: "string", default: join(here, "../results/page.json") },
  },
});

const loads = {
  "200 lines x 3600 points": { lines: 200, points: 3600, band: false },
  "3 lines and a band x 1000 points": { lines: 3, points: 1000, band: true },
};
// script tasks in a trace; nested ones count once
const script = new Set(["FunctionCall", "EvaluateScript", "RunMicrotasks", "FireAnimationFrame", "TimerFire", "EventDispatch", "HandlePostMessage", "MajorGC", "MinorGC", "V8.GCScavenger"]);

const folder = mkdtempSync(join(tmpdir(), "pillion-bench-page-"));
try {
  await bundle(folder);
  const server = await serve(folder);
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-precise-memory-info"],
  });
  const result = { experiment: "page", date: new Date().toISOString(), commit: commit(), cpus: cpus().length, cpu: cpus()[0]?.model, browser: browser.version(), runs: Number(flags.runs), updates: Number(flags.updates), load_before: loadavg()[0], loads: {} };
  const runs = Object.fromEntries(Object.keys(loads).map((name) => [name, []]));
  for (let i = 0; i < Number(flags.runs); i++) {
    for (const [name, load] of Object.entries(loads)) {
      const one = await measure(browser, server.address().port, load);
      runs[name].push(one);
      console.log(`${name}: first ${one.first_ms.toFixed(0)} ms, script per frame ${one.script_ms.median.toFixed(2)} ms median, ${one.script_ms.p95.toFixed(2)} p95, ${one.script_ms.worst.toFixed(2)} worst (processor ${one.cpu_ms.median.toFixed(2)}, ${one.cpu_ms.p95.toFixed(2)}, ${one.cpu_ms.worst.toFixed(2)}); axis change ${one.axis_ms.median.toFixed(2)} (processor ${one.axis_cpu_ms.median.toFixed(2)}, longest ${one.axis_longest_ms.worst.toFixed(2)}); main thread ${one.task_ms.median.toFixed(2)} ms; heap ${one.heap_mib.toFixed(1)} MiB`);
    }
  }
  for (const [name, list] of Object.entries(runs)) result.loads[name] = summary(list);
  result.load_after = loadavg()[0];
  writeFileSync(`${flags.out}.tmp`, `${JSON.stringify(result, null, 2)}\n`);
  renameSync(`${flags.out}.tmp`, flags.out);
  await browser.close();
  server.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function bundle(outDir) {
  const installed = (name) => ({ find: new RegExp(`^${name}(/|$)`), replacement: `${join(ui, "node_modules", name)}$1` });
  await build({
    configFile: false, root: here, logLevel: "warn",
    resolve: { alias: ["preact", "uplot", "@preact/signals"].map(installed) },
    oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
    build: { outDir, emptyOutDir: true, target: "es2022", modulePreload: false, rollupOptions: { input: join(here, "series.html") } },
  });
}

function serve(root) {
  const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
  return new Promise((resolve) => {
    const server = createServer((request, response) => {
      try {
        const path = new URL(request.url, "http://localhost").pathname;
        const body = readFileSync(join(root, path)); // URL has resolved any ..
        response.writeHead(200, { "content-type": types[extname(path)] ?? "application/octet-stream" }).end(body);
      } catch {
        response.writeHead(404).end();
      }
    });
    server.listen(0, "127.0.0.1", () => resolve(server));
  });
}

async function measure(browser, port, load) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(`http://127.0.0.1:${port}/series.html`);
  await page.evaluate((l) => window.bench.prepare(l), load);
  const first = await page.evaluate(() => window.bench.first());
  // the first updates include compilation
  for (let i = 0; i < 5; i++) await page.evaluate(() => (window.bench.step(), window.bench.painted()));
  const events = await traced(page, () => steps(page, Array(Number(flags.updates)).fill(0)));
  // each peak is 1.5 times as high as the last: the axis changes, and everything is repainted
  const jumps = await traced(page, () => steps(page, Array.from({ length: 6 }, (_, i) => 40e6 * 1.5 ** i)));
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("HeapProfiler.collectGarbage");
  const { usedSize, backingStorageSize = 0 } = await cdp.send("Runtime.getHeapUsage"); // backingStorageSize: typed arrays
  await page.close();
  const frames = perUpdate(events);
  const axis = perUpdate(jumps);
  return { axis_ms: spread(axis.map((f) => f.script)), axis_cpu_ms: spread(axis.map((f) => f.cpu)), axis_longest_ms: spread(axis.map((f) => f.longest)), first_ms: first, script_ms: spread(frames.map((f) => f.script)), cpu_ms: spread(frames.map((f) => f.cpu)), task_ms: spread(frames.map((f) => f.task)), heap_mib: (usedSize + backingStorageSize) / 2 ** 20 };
}

function steps(page, peaks) {
  return page.evaluate(async ({ peaks, pace }) => {
    for (const peak of peaks) {
      await new Promise((r) => setTimeout(r, pace));
      window.bench.step(peak);
      await window.bench.painted();
    }
  }, { peaks, pace: Number(flags.pace) });
}

async function traced(page, work) {
  const cdp = await page.context().newCDPSession(page);
  const events = [];
  cdp.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  await cdp.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["devtools.timeline", "toplevel", "disabled-by-default-devtools.timeline", "blink.user_timing", "v8"] } });
  await work();
  const done = new Promise((resolve) => cdp.once("Tracing.tracingComplete", resolve));
  await cdp.send("Tracing.end");
  await done;
  return events;
}

// Script and whole tasks of the main thread, from one update's mark to 200 ms on
// (less than the pace): all frames of an update count as one.
function perUpdate(events) {
  const marks = events.filter((e) => e.name === "bench-step" && e.cat.includes("user_timing"));
  const thread = marks[0]?.tid;
  const mine = events.filter((e) => e.tid === thread && e.pid === marks[0]?.pid && e.ph === "X" && e.dur > 0);
  const window = Math.min(200, Number(flags.pace)) * 1000;
  return marks.map(({ ts }) => {
    const inside = mine.filter((e) => e.ts + e.dur > ts && e.ts < ts + window);
    return { longest: Math.max(0, ...inside.filter((e) => script.has(e.name)).map((e) => ownTime([e], ts))), script: covered(inside.filter((e) => script.has(e.name)), ts), cpu: ownTime(inside.filter((e) => script.has(e.name)), ts), task: covered(inside.filter((e) => e.name === "RunTask" || e.name === "ThreadControllerImpl::RunTask"), ts) };
  });
}

// total CPU time of events, ms; other programs are excluded.
function ownTime(events, from) {
  let sum = 0;
  let end = from;
  for (const e of events.sort((a, b) => a.ts - b.ts)) {
    if (e.ts + e.dur <= end) continue; // nested
    sum += ((e.tdur ?? e.dur) * (e.ts + e.dur - Math.max(e.ts, end))) / e.dur;
    end = e.ts + e.dur;
  }
  return sum / 1000;
}

// ms covered by events, from a time on.
function covered(events, from) {
  let sum = 0;
  let end = from;
  for (const e of events.sort((a, b) => a.ts - b.ts)) {
    const start = Math.max(e.ts, end);
    const stop = e.ts + e.dur;
    if (stop > start) {
      sum += stop - start;
      end = stop;
    }
  }
  return sum / 1000;
}

function spread(list) {
  const sorted = [...list].sort((a, b) => a - b);
  const at = (q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? NaN;
  return { median: at(0.5), p95: at(0.95), worst: at(1) };
}

function summary(list) {
  const middle = (f) => round(spread(list.map(f)).median);
  return {
    first_ms: middle((r) => r.first_ms), first_ms_runs: list.map((r) => round(r.first_ms)),
    script_ms: { median: middle((r) => r.script_ms.median), p95: middle((r) => r.script_ms.p95), worst: middle((r) => r.script_ms.worst) },
    script_ms_runs: list.map((r) => ({ median: round(r.script_ms.median), p95: round(r.script_ms.p95), worst: round(r.script_ms.worst) })),
    script_cpu_ms: { median: middle((r) => r.cpu_ms.median), p95: middle((r) => r.cpu_ms.p95), worst: middle((r) => r.cpu_ms.worst) },
    // painted over several frames: total, and the longest task (CPU time) in one
    axis_change: { script_ms_all_frames: middle((r) => r.axis_ms.median), script_cpu_ms_all_frames: middle((r) => r.axis_cpu_ms.median), longest_cpu_ms: middle((r) => r.axis_longest_ms.median), longest_cpu_ms_worst: middle((r) => r.axis_longest_ms.worst) },
    main_thread_ms: { median: middle((r) => r.task_ms.median), p95: middle((r) => r.task_ms.p95) },
    heap_mib: middle((r) => r.heap_mib),
  };
}

function round(v) {
  return Math.round(v * 100) / 100;
}

function commit() {
  try {
    return execFileSync("git", ["rev-parse", "HEAD"], { cwd: here, encoding: "utf8" }).trim();
  } catch {
    return "";
  }
}
