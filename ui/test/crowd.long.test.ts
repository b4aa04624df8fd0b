// Two hundred simulated agents: the matrix, its cells, the graph, and what each update costs.
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { gather, type Crowd } from "./crowd.ts";
import { atRest, barriers, launch, open, overhang, screenshot, updates } from "./browser.ts";
import { until } from "./command.ts";

const agents = 200;
let crowd: Crowd;
let browser: Browser;
beforeAll(async () => {
  [crowd, browser] = await Promise.all([gather(agents, "--sites"), launch()]);
  await until("rows of most pairs", async () => {
    const text = await crowd.pillion("query", "-o", "csv", "SELECT count(DISTINCT source || ' ' || agent) AS n FROM flows");
    return Number(/\d+/.exec(text.split("\n")[1] ?? "")?.[0] ?? 0) > 1000;
  });
});
afterAll(async () => {
  await browser?.close();
  await crowd?.end();
});

/** Processor time of the page's scripts, ms, and the longest single tasks in a stretch of time. */
async function cost(page: Page, ms: number): Promise<{ script: number; longest: number; over16: number }> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" }); // processor time: excludes other processes
  const script = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return (metrics.find((m) => m.name === "ScriptDuration")?.value ?? 0) * 1e3;
  };
  const before = await script();
  const tasks = await page.evaluate((wait) => new Promise<number[]>((done) => {
    const found: number[] = [];
    const observer = new PerformanceObserver((list) => found.push(...list.getEntries().map((e) => e.duration)));
    observer.observe({ entryTypes: ["longtask"] }); // tasks of 50 ms and more
    setTimeout(() => { observer.disconnect(); done(found); }, wait);
  }), ms);
  const used = await script() - before;
  await session.detach();
  return { script: used / (ms / 1000), longest: Math.max(0, ...tasks), over16: tasks.length };
}

test("the matrix shows all hosts, and a cell leads to its pair", async () => {
  const { page, clean, close } = await open(browser, crowd, { role: "viewer", path: "#/", width: 1440, height: 1000 });
  const grid = page.getByRole("grid").first();
  await grid.waitFor();
  await expect.poll(() => page.getByRole("region", { name: "Totals" }).innerText()).toMatch(/\b200\b/);
  await expect.poll(async () => Number(/Pairs with traffic\s+([\d,.\s]+)/.exec(await page.getByRole("region", { name: "Totals" }).innerText())?.[1]?.replace(/\D/g, ""))).toBeGreaterThan(1000);
  expect(await overhang(page)).toBeLessThanOrEqual(0);
  const each = await cost(page, 6000);
  console.log(`matrix of ${agents} hosts: ${each.script.toFixed(1)} ms of script a second, longest task ${each.longest.toFixed(0)} ms`);
  await screenshot(page, "matrix", "light");
  const box = await grid.boundingBox();
  if (!box) throw new Error("the grid has no place");
  // Somewhere in the matrix there is traffic; a click there leads to a pair.
  await until("a click that leads to a pair", async () => {
    await page.mouse.click(box.x + box.width * (0.2 + 0.7 * Math.random()), box.y + Math.min(box.height, 900) * (0.2 + 0.7 * Math.random()));
    return page.url().includes("#/pair/");
  });
  await page.getByRole("heading", { level: 1, name: /host-\d+ (to|→) host-\d+/ }).waitFor();
  clean();
  await close();
});

test("the graph of all paths is drawn and stays usable", async () => {
  const { page, clean, close } = await open(browser, crowd, { role: "viewer", path: "#/topology", width: 1440, height: 1000 });
  const picture = page.getByRole("application", { name: /^Graph of/ });
  await expect.poll(() => picture.getAttribute("aria-label")).toMatch(/between 200 hosts/);
  expect(await overhang(page)).toBeLessThanOrEqual(0);
  expect(await barriers(page)).toEqual([]);
  clean();
  await close();
});

test("the graph by site opens a site into its hosts", async () => {
  const { page, clean, close } = await open(browser, crowd, { role: "viewer", path: "#/topology", width: 1280, height: 900 });
  const picture = page.getByRole("application", { name: /^Graph of/ });
  await page.getByRole("group", { name: "Graph of" }).getByRole("button", { name: "Sites" }).click();
  await expect.poll(() => picture.getAttribute("aria-label")).toMatch(/between \d+ sites\./);
  const paths = page.getByRole("region", { name: "Paths between sites" });
  await paths.getByText(/site-\d+ → site-\d+/).first().waitFor();
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await atRest(page);
    expect(await overhang(page)).toBeLessThanOrEqual(0);
    expect(await barriers(page)).toEqual([]);
    if (!updates) await screenshot(page, "topology-sites", theme);
  }
  const choice = page.getByLabel("Show hosts of");
  const site = await choice.locator("option").nth(1).getAttribute("value") ?? "";
  await choice.selectOption(site);
  await expect.poll(() => picture.getAttribute("aria-label")).toMatch(/between \d+ sites and \d+ hosts\./);
  expect(page.url(), "a link leads to the same graph").toContain(`open=${site}`);
  await atRest(page);
  if (!updates) await screenshot(page, "topology-site-open", "dark");
  // A click on another site opens that, too.
  const box = await picture.boundingBox();
  if (!box) throw new Error("the graph has no place");
  await until("a click that opens a site", async () => {
    await page.mouse.click(box.x + box.width * (0.1 + 0.8 * Math.random()), box.y + box.height * (0.1 + 0.8 * Math.random()));
    return decodeURIComponent(page.url()).includes(`open=${site},`);
  });
  await page.getByRole("button", { name: `Show ${site} as one node` }).click();
  await expect.poll(() => page.url()).not.toContain(site);
  expect(await overhang(page)).toBeLessThanOrEqual(0);
  clean();
  await close();
});

test("a viewer on a telephone can read the hosts", async () => {
  const { page, clean, close } = await open(browser, crowd, { role: "viewer", path: "#/", width: 360, height: 740, touch: true });
  await page.getByRole("link", { name: "host-001" }).first().waitFor();
  expect(await overhang(page)).toBeLessThanOrEqual(0);
  expect(await barriers(page)).toEqual([]);
  clean();
  await close();
});
