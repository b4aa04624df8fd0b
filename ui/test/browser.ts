// A browser, and pages that record everything that a page must not do.
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { patience, root } from "./command.ts";
import type { Role, Site } from "./lab.ts";

/** Starts a browser with an empty profile. */
export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
    ],
  });
}

export interface Look {
  role?: Role | undefined;
  /** Path after the server's URL, such as "#/events". */
  path?: string;
  width?: number;
  height?: number;
  theme?: "light" | "dark";
  touch?: boolean;
}

/** A page whose faults are recorded. */
export interface Watched {
  page: Page;
  context: BrowserContext;
  /** Faults so far: console errors, script errors, requests to other hosts. */
  faults: string[];
  /** Faults that match are expected from now on. */
  forgive(pattern: RegExp): void;
  /** Navigates to another view without reloading, and waits until it is idle. */
  visit(path: string): Promise<void>;
  /** Throws if there was a fault. */
  clean(): void;
  close(): Promise<void>;
}

/** Opens the page of a server, signed in as a role where one is given. */
export async function open(browser: Browser, site: Site, look: Look = {}): Promise<Watched> {
  const context = await browser.newContext({
    viewport: { width: look.width ?? 1280, height: look.height ?? 900 }, colorScheme: look.theme ?? "light", hasTouch: look.touch ?? false,
  });
  context.setDefaultTimeout(patience);
  if (look.role) {
    const secret = await site.token(look.role);
    // Once: later documents of this context keep the state of the user.
    await context.addInitScript((text) => {
      if (sessionStorage.getItem("test.begun")) return;
      sessionStorage.setItem("test.begun", "1");
      sessionStorage.setItem("pillion.token", text);
    }, secret);
  }
  const page = await context.newPage();
  const watched = watch(page, context, new URL(site.url).origin);
  await page.goto(`${site.url}/${look.path ?? ""}`);
  return watched;
}

function watch(page: Page, context: BrowserContext, origin: string): Watched {
  const faults: string[] = [];
  const forgiven: RegExp[] = [];
  const note = (text: string) => void (forgiven.some((p) => p.test(text)) || faults.push(text));
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && note(`console ${m.type()}: ${m.text()} (${m.location().url})`));
  page.on("pageerror", (e) => note(`script error: ${e.stack ?? e.message}`));
  page.on("request", (r) => {
    if (!/^(data|blob|about):/.test(r.url()) && new URL(r.url()).origin !== origin) note(`request to another host: ${r.url()}`);
  });
  page.on("response", (r) => r.status() >= 400 && note(`answer ${r.status()} of ${r.url()}`));
  return {
    page, context, faults,
    forgive: (pattern) => void forgiven.push(pattern),
    async visit(path) {
      await page.evaluate((hash) => void (location.hash = hash), path);
      await atRest(page);
    },
    clean() {
      if (faults.length > 0) throw new Error(`the page has faults:\n${faults.slice(0, 20).join("\n")}`);
    },
    close: () => context.close(),
  };
}

/** Waits until a view has its heading, has finished loading and has drawn its charts. */
export async function atRest(page: Page): Promise<void> {
  await page.waitForFunction(() => {
    const main = document.querySelector("main");
    const drawn = [...document.querySelectorAll(".chart-stage, .graph-canvas")].every((e) => e.querySelector("canvas"));
    return main?.querySelector("h1, h2") && !/Loading|updating…/.test(main.innerText) && drawn;
  }, undefined, { polling: 50 });
  // Answers in the same frame are drawn within the next two.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** The figure of a term in the column of a direction, as shown now in the view of a pair. */
export async function figure(page: Page, direction: string, term: RegExp): Promise<string> {
  const region = page.getByRole("region", { name: `Figures ${direction}` });
  const texts = await region.locator("dt, dd").allInnerTexts();
  const at = texts.findIndex((t) => term.test(t));
  return at < 0 ? "" : (texts[at + 1] ?? "").trim();
}

/** The number in a figure. */
export const number = (text: string): number => parseFloat(text.replace(/[^\d.,-]/g, "").replace(",", "."));

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Returns the serious and critical accessibility findings of axe. */
export async function barriers(page: Page): Promise<string[]> {
  if (!await page.evaluate(() => "axe" in globalThis)) await page.evaluate(axeSource);
  return page.evaluate(async () => {
    type Finding = { id: string; impact: string | null; help: string; nodes: { html: string; failureSummary?: string }[] };
    const axe = (globalThis as unknown as { axe: { run(where: Document, how: object): Promise<{ violations: Finding[] }> } }).axe;
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations.filter((v) => v.impact === "serious" || v.impact === "critical")
      .map((v) => `${v.impact} ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 200)} ${n.failureSummary?.split("\n")[1] ?? ""}`).join(" | ")}`);
  });
}

/** Horizontal overflow of the page, px. */
export function overhang(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}

/** Screenshots of the documents are updated. */
export const updates = process.env.UPDATE_SCREENSHOTS === "1";
const screenshotLimit = 250_000; // bytes

/** Takes a screenshot: for the documents if they are updated, else beside the tests. */
export async function screenshot(page: Page, name: string, theme: "light" | "dark"): Promise<void> {
  const folder = updates ? join(root, "docs/images") : join(root, "ui/test/results");
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${name}-${theme}.png`);
  await page.screenshot({ path });
  const size = statSync(path).size;
  if (size > screenshotLimit) throw new Error(`${path} has ${size} bytes, the limit is ${screenshotLimit}`);
}

/** Texts of all visible buttons and fields. */
export function controls(page: Page): Promise<string[]> {
  return page.evaluate(() => [...document.querySelectorAll<HTMLElement>("button, input, select, textarea, [role=button]")]
    .filter((e) => e.checkVisibility())
    .map((e) => (e.getAttribute("aria-label") ?? e.textContent ?? "").trim().replace(/\s+/g, " ")));
}
