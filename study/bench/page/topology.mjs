// Measures the topology of many simulated agents in full mesh, in a real server and Chromium, and prints one JSON
// object: size of the answer, time until the graph is drawn, and the longest tasks of the page.
//
//   node study/bench/page/topology.mjs [--agents 200] [--watch 35000] [--share 1] [--programs bin]
//
// It waits until the share of all paths has been traced, which takes some minutes, and pauses the session, so that the agents are idle. The
// server runs on the same machine as the browser, so that tasks are also given in processor time, which excludes other programs.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { longestTask } from "./trace.mjs";

const installed = fileURLToPath(new URL("../../../ui/node_modules", import.meta.url));
const { chromium } = await import(join(installed, "playwright-core/index.mjs"));

const { values: flags } = parseArgs({
  options: {
    agents: { type: "string", default: "200" },
    watch: { type: "string", default: "35000" }, // ms after the first drawing: at least one update of a large graph
    share: { type: "string", default: "1" }, // of all paths, that must be known
    programs: { type: "string", default: "bin" },
  },
});
const [agents, watch, share] = [Number(flags.agents), Number(flags.watch), Number(flags.share)];
if (!(agents >= 2 && watch > 0 && share > 0 && share <= 1)) throw new Error("want --agents of 2 or more, --watch in ms, and --share up to 1");

const crowd = spawn(join(flags.programs, "crowd"), ["--program", join(flags.programs, "pillion-server"), "--agents", String(agents), "--pairs", String(agents - 1), "--interval", "1m"], { stdio: ["ignore", "pipe", "pipe"] });
let said = "";
for (const stream of [crowd.stdout, crowd.stderr]) stream.on("data", (chunk) => (said += chunk));
const ended = new Promise((resolve) => crowd.on("close", resolve));
let browser;
try {
  const [, url, file] = await says(/^server: (\S+), token in (\S+)$/m);
  const token = readFileSync(file, "utf8").trim();
  const paths = await mesh(url, token, Math.floor(share * agents * (agents - 1)));
  await call(url, token, "SessionService/PauseSession", { name: "crowd" });
  const answer = await ask(url, token, "identity");
  const compressed = await ask(url, token, "gzip");
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const drawn = await draw(browser, url, token);
  console.log(JSON.stringify({
    browser: browser.version(), agents, paths, answer_bytes: answer.bytes, answer_ms: answer.ms, gzip_bytes: compressed.bytes, ...drawn,
  }));
} finally {
  await browser?.close();
  crowd.kill("SIGINT");
  await ended;
}

/** Waits until the agents' output matches. */
async function says(pattern) {
  for (let i = 0; i < 1200; i++) {
    const match = said.match(pattern);
    if (match) return match;
    if (crowd.exitCode !== null) break;
    await new Promise((r) => setTimeout(r, 100));
  }
  throw new Error(`start agents: no ${pattern} in ${said}`);
}

/** Calls a method in JSON. */
async function call(url, token, method, body) {
  const answer = await fetch(`${url}/pillion.v1.${method}`, {
    method: "POST", headers: { "content-type": "application/json", authorization: `Bearer ${token}` }, body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`call ${method}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** Waits until that many paths are known, and returns their number. */
async function mesh(url, token, least) {
  for (let i = 0; i < 60; i++) {
    const { columns = {} } = await call(url, token, "TopologyService/GetTopology", { columns: true });
    const known = columns.sources?.length ?? 0;
    if (known >= least) return known;
    await new Promise((r) => setTimeout(r, 5000));
  }
  throw new Error(`trace paths: fewer than ${least} after 300 s`);
}

/** Requests the answer as the page does; bytes are those on the wire. */
function ask(url, token, encoding) {
  const begin = performance.now();
  return new Promise((resolve, reject) => {
    const call = request(`${url}/pillion.v1.TopologyService/GetTopology`, {
      method: "POST", headers: { "content-type": "application/proto", "accept-encoding": encoding, authorization: `Bearer ${token}` },
    }, (answer) => {
      let bytes = 0;
      answer.on("data", (chunk) => (bytes += chunk.length));
      answer.on("end", () => (answer.statusCode === 200 ? resolve({ bytes, ms: performance.now() - begin }) : reject(new Error(`get topology: status ${answer.statusCode}`))));
    });
    call.on("error", reject);
    call.end(Buffer.from([0x20, 1])); // columns: true
  });
}

/** Draws the graph, watches its updates, and colours it by loss. */
async function draw(browser, url, token) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 1000 } });
  await page.addInitScript((secret) => {
    sessionStorage.setItem("pillion.token", secret);
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => e.duration))).observe({ type: "longtask", buffered: true });
  }, token);
  const cdp = await page.context().newCDPSession(page);
  const events = [];
  cdp.on("Tracing.dataCollected", ({ value }) => events.push(...value));
  await cdp.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories: ["toplevel", "__metadata"] } });
  await page.goto(`${url}/#/topology`);
  const first = await page.evaluate(() => new Promise((resolve) => {
    const look = () => {
      if (document.querySelector(".graph-canvas canvas") && !document.querySelector(".graph-fault")) requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now())));
      else requestAnimationFrame(look);
    };
    look();
  }));
  const longest = () => page.evaluate(() => Math.max(0, ...window.tasks.splice(0)));
  const early = await longest();
  await page.waitForTimeout(watch);
  const updates = await longest();
  await page.getByRole("button", { name: "Loss" }).click();
  await page.waitForTimeout(5000);
  const loss = await longest();
  const label = await page.getByRole("application", { name: /^Graph of/ }).getAttribute("aria-label");
  const done = new Promise((resolve) => cdp.once("Tracing.tracingComplete", resolve));
  await cdp.send("Tracing.end");
  await done;
  return {
    drawn: label.split(".")[0], first_drawing_ms: first, longest_task_first_ms: early, longest_task_updates_ms: updates, longest_task_loss_ms: loss,
    longest_task_cpu_ms: longestTask(events),
  };
}
