// Every view in both themes and at seven widths: accessible, no horizontal overflow, no
// requests to other hosts; with screenshots.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { atRest, barriers, launch, open, overhang, screenshot, updates, type Watched } from "./browser.ts";
import { until } from "./command.ts";
import { raise, threeSites, type Lab } from "./lab.ts";

let lab: Lab;
let empty: Lab;
let browser: Browser;
let full: Watched;
let bare: Watched;
beforeAll(async () => {
  [lab, empty, browser] = await Promise.all([
    raise(threeSites, "noc", ["berlin", "lisbon", "oslo"]), raise("hosts: {a: {}, noc: {}}\nlinks: [{ends: [a, noc]}]", "noc", []), launch(),
  ]);
  await lab.pillion("session", "create", "--name", "sites", "--from", "*", "--to", "*");
  await lab.pillion("session", "create", "--name", "mornings", "--from", "berlin", "--to", "*", "--filter", "proto=tcp", "--cron", "0 9 * * 1-5", "--tz", "Europe/Berlin", "--duration", "8h");
  await until("rows", async () => /[1-9]/.test((await lab.pillion("query", "-o", "csv", "SELECT count(*) FROM flows")).split("\n")[1] ?? ""));
  if (updates) await new Promise((done) => setTimeout(done, 75_000)); // charts of a minute, for the documents
  full = await open(browser, lab, { role: "operator" });
  bare = await open(browser, empty, { role: "operator" });
  bare.forgive(/answer (404|400)|status of 40/); // unknown host, unknown session
});
afterAll(async () => {
  await browser?.close();
  await lab?.down();
  await empty?.down();
});

const views: Record<string, string> = {
  overview: "#/", pair: "#/pair/berlin/lisbon?range=1m", agent: "#/agent/berlin", topology: "#/topology?pair=berlin%3Elisbon", traffic: "#/traffic", levels: "#/levels?availability=99.9&delay=20ms&loss=1", sessions: "#/sessions",
  sites: "#/?view=sites", "session-new": "#/sessions/new?from=berlin&to=oslo", session: "#/sessions/sites", runs: "#/sessions?show=runs", alarms: "#/alarms", events: "#/events", about: "#/about", licences: "#/licences",
};

describe.each(Object.entries(views))("view %s", (name, path) => {
  test.each(["light", "dark"] as const)("%s: axe finds nothing serious, a screenshot", async (theme) => {
    const { page, clean, visit } = full;
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width: 1280, height: 900 });
    await visit(path);
    await page.locator("main h1").first().waitFor();
    if (updates) await page.waitForTimeout(6000); // figures of some seconds, for the picture
    expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe(theme);
    expect(await barriers(page)).toEqual([]);
    await screenshot(page, name, theme);
    clean();
  });

  test("no width makes the page scroll sideways", async () => {
    const { page, clean, visit } = full;
    await visit(path);
    const wide: string[] = [];
    for (const width of [360, 720, 768, 901, 1024, 1280, 2560]) {
      await page.setViewportSize({ width, height: 900 });
      await atRest(page);
      const over = await overhang(page);
      if (over > 0) wide.push(`${width} px: ${over} px too wide`);
    }
    expect(wide).toEqual([]);
    clean();
  });

  test("without hosts and rows it suggests the next step", async () => {
    const { page, clean, visit } = bare;
    await visit(path);
    // Before the answers of the server have come, the view only says that it loads.
    await page.waitForFunction(() => (document.querySelector("main")?.innerText.length ?? 0) > 40);
    const text = await page.locator("main").innerText();
    expect(text).not.toMatch(/undefined|NaN|\[object|Infinity/);
    expect(await barriers(page)).toEqual([]);
    clean();
  });
});

// Of three hosts, berlin and lisbon are in the scope: the selector of a host shows the host, a pair only the pair.
const scopes: Record<string, string[]> = { hosts: ["--scope", "berlin", "--scope", "lisbon"], pair: ["--scope", "berlin:lisbon"] };

test.each(Object.entries(scopes))("a viewer with a scope of %s sees nothing beyond it, and nothing false", async (kind, words) => {
  const made = await lab.pillion("token", "create", `tenant-${kind}`, "--role", "viewer", ...words, "-o", "json");
  const secret = /pt_[a-z0-9]+/.exec(made)?.[0] ?? "";
  const { page, clean, visit, close, forgive } = await open(browser, { ...lab, token: async () => secret }, { role: "viewer" });
  forgive(/answer 404 .*ListRows|status of 404/); // no report of an experiment
  const wrong: string[] = [];
  const addresses = { ...views, experiments: "#/experiments", labels: "#/traffic?by=label", addresses: "#/traffic?by=host", back: "#/pair/lisbon/berlin", "topology-sites": "#/topology?view=sites", tokens: "#/tokens" };
  for (const [name, path] of Object.entries(addresses)) {
    await visit(path);
    const text = await page.locator("body").innerText();
    if (name !== "session-new" && /oslo|10\.77\.3\.1/i.test(text)) wrong.push(`${name}: something of oslo: ${text}`);
    if (/has a scope; this|joined yet|Unknown host|has reported a task|by unknown|all traffic|measures .* only/i.test(text) || await page.locator(".notice.error, .field-fault:not(:empty)").count() > 0) wrong.push(`${name}: ${text}`);
    if (!text.includes("Limited view:")) wrong.push(`${name} does not say that the view is limited`);
    if (!updates) await screenshot(page, `scope-${kind}-${name}`, "light");
  }
  await visit("#/pair/berlin/oslo");
  await page.getByText("this token does not show packets from berlin to oslo").waitFor();
  expect(wrong).toEqual([]);
  clean();
  await close();
});

test("signing in looks right in both themes", async () => {
  for (const theme of ["light", "dark"] as const) {
    const { page, clean, close } = await open(browser, lab, { theme });
    await page.getByLabel("Token", { exact: true }).waitFor();
    expect(await barriers(page)).toEqual([]);
    await screenshot(page, "sign-in", theme);
    clean();
    await close();
  }
});

test.each([320, 390, 1024])("at %i px each view can be reached, and no two labels of the navigation touch", async (width) => {
  const { page, clean, visit, close, forgive } = await open(browser, lab, { role: "viewer", width, height: 740, touch: true });
  forgive(/answer 404 .*ListRows|status of 404/); // no report of an experiment
  const doors = page.getByRole("navigation", { name: "Views" });
  await doors.waitFor();
  const labels = await doors.locator("> * > span:not([class])").evaluateAll((all) => all.filter((e) => e.checkVisibility()).map((e) => {
    const { left, right } = e.getBoundingClientRect();
    return { text: e.textContent, left, right };
  }));
  expect(labels.filter((l, i) => l.left < (labels[i - 1]?.right ?? -4) + 4 || l.right > width).map((l) => l.text)).toEqual([]);
  for (const name of ["Traffic", "Service levels", "Experiments"]) {
    await doors.getByRole("button", { name: "More" }).click();
    await doors.getByRole("link", { name }).click();
    await page.getByRole("heading", { level: 1, name }).waitFor();
    expect(await page.title()).toBe(`${name} · Pillion`);
    expect(await doors.getByRole("link", { name }).count(), "the menu is closed").toBe(0);
  }
  for (const path of ["#/", "#/topology", "#/sessions", "#/sessions/sites", "#/nowhere"]) {
    await visit(path);
    expect(await page.title()).toMatch(/^.+ · Pillion$/);
  }
  clean();
  await close();
});

test("an unknown address shows a notice", async () => {
  const { page, clean, close } = await open(browser, lab, { role: "viewer", path: "#/nowhere" });
  await page.getByText("Page not found").waitFor();
  expect(await barriers(page)).toEqual([]);
  clean();
  await close();
});
