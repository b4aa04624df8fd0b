// The workload of study/bench/page.yaml: draws a chart in Chromium, keeps it live, and prints one JSON
// object: how long until the first drawing, and the script time of each update. Script time
// is from the browser's own trace and includes drawing commands.
//
//   node study/bench/page/run.mjs [--lines 200] [--points 3600] [--band] [--updates 40] [--changes 6] [--warmup 5] [--pace 250] [--page bin/bench/page]
//
// bundle.mjs makes the page.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { perUpdate, spread } from "./trace.mjs";

const installed = fileURLToPath(new URL("../../../ui/node_modules", import.meta.url));
const { chromium } = await import(join(installed, "playwright-core/index.mjs"));

const { values: flags } = parseArgs({
  options: {
    lines: { type: "string", default: "200" },
    points: { type: "string", default: "3600" },
    band: { type: "boolean", default: false },
    updates: { type: "string", default: "40" },
    changes: { type: "string", default: "6" }, // of the value axis
    warmup: { type: "string", default: "5" }, // the first updates include compilation
    pace: { type: "string", default: "250" },
    page: { type: "string", default: "bin/bench/page" },
  },
});
const number = (name) => {
  const value = Number(flags[name]);
  if (!Number.isInteger(value) || value < 1) throw new Error(`invalid --${name} ${flags[name]}: want a positive integer`);
  return value;
};
const load = { lines: number("lines"), points: number("points"), band: flags.band };
const updates = number("updates");
const pace = number("pace"); // ms from update to update
const warmup = number("warmup");
// each peak is 1.5 times as high as the last: the axis changes, and everything is repainted
const peaks = Array.from({ length: number("changes") }, (_, i) => 40e6 * 1.5 ** i);

const server = await serve(flags.page);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-precise-memory-info"],
});
try {
  console.log(JSON.stringify(await measure(server.address().port)));
} finally {
  await browser.close();
  server.close();
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

async function measure(port) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(`http://127.0.0.1:${port}/series.html`);
  await page.evaluate((l) => window.bench.prepare(l), load);
  const first = await page.evaluate(() => window.bench.first());
  for (let i = 0; i < warmup; i++) await page.evaluate(() => (window.bench.step(), window.bench.painted()));
  const live = await traced(page, Array(updates).fill(0));
  const axis = await traced(page, peaks);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("HeapProfiler.collectGarbage");
  const { usedSize, backingStorageSize = 0 } = await cdp.send("Runtime.getHeapUsage"); // backingStorageSize: typed arrays
  const script = spread(live.map((u) => u.script));
  const cpu = spread(live.map((u) => u.cpu));
  const median = (list, name) => spread(list.map((u) => u[name])).median;
  return {
    browser: browser.version(), updates, first_ms: first,
    script_ms: script.median, script_p95_ms: script.p95, script_worst_ms: script.worst,
    cpu_ms: cpu.median, cpu_p95_ms: cpu.p95, cpu_worst_ms: cpu.worst,
    // painted over several frames: total, and the longest task in one
    axis_ms: median(axis, "script"), axis_cpu_ms: median(axis, "cpu"), axis_longest_ms: spread(axis.map((u) => u.longest)).worst,
    main_thread_ms: median(live, "task"), heap_mib: (usedSize + backingStorageSize) / 2 ** 20,
    intervals: live.map((u, update) => ({ update, script_ms: u.script, cpu_ms: u.cpu, main_thread_ms: u.task })),
  };
}

// Updates the chart once for each peak, 0 is none, and returns what each update took.
async function traced(page, peaks) {
  const cdp = await page.context().newCDPSession(page);
  const events = [];
  cdp.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  await cdp.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["devtools.timeline", "toplevel", "disabled-by-default-devtools.timeline", "blink.user_timing", "v8"] } });
  await page.evaluate(async ({ peaks, pace }) => {
    for (const peak of peaks) {
      await new Promise((r) => setTimeout(r, pace));
      window.bench.step(peak);
      await window.bench.painted();
    }
  }, { peaks, pace });
  const done = new Promise((resolve) => cdp.once("Tracing.tracingComplete", resolve));
  await cdp.send("Tracing.end");
  await done;
  const seen = perUpdate(events);
  if (seen.length !== peaks.length) throw new Error(`the browser's trace has ${seen.length} of ${peaks.length} updates`);
  return seen;
}
