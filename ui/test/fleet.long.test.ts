// A fleet of two servers behind one address: one dies, then both.
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { figure, launch, number, open } from "./browser.ts";
import { until } from "./command.ts";
import { raise, twoServers, type Lab } from "./lab.ts";

let lab: Lab;
let browser: Browser;
beforeAll(async () => {
  [lab, browser] = await Promise.all([raise(twoServers, { hubs: ["hub"], servers: ["n1", "n2"], shards: [["ch"]], coordination: "zk" }, ["a", "b"]), launch()]);
  await lab.pillion("session", "create", "--name", "s", "--from", "a", "--to", "b", "--both");
  await until("the session to run", async () => /\brunning\b/.test(await lab.pillion("session", "list")));
});
afterAll(async () => {
  await browser?.close();
  await lab?.down();
});

/** Records in the page when its banner of an unreachable server appears and disappears. */
async function record(page: Page): Promise<void> {
  await page.evaluate(() => {
    const seen: [number, boolean][] = [];
    Object.assign(globalThis, { bannerSeen: seen });
    const look = () => {
      const shown = [...document.querySelectorAll('[role="alert"]')].some((e) => e.textContent?.includes("No answer from the server"));
      if (shown !== (seen.at(-1)?.[1] ?? false)) seen.push([Date.now(), shown]);
    };
    new MutationObserver(look).observe(document.body, { subtree: true, childList: true });
  });
}

const recorded = (page: Page) => page.evaluate(() => (globalThis as unknown as { bannerSeen?: [number, boolean][] }).bannerSeen);

/** Changes the delay of the link, and waits until the page shows the new one: only new rows have it. */
async function showsNewRows(page: Page, ms: number): Promise<void> {
  await lab.change("a-b", "--from", "a", "--delay", `${ms}ms`);
  await expect.poll(async () => Math.round(number(await figure(page, "a → b", /Median/)))).toBe(ms);
}

test("the page goes on when the server dies that it was loaded from, and when all were dead", async () => {
  const { page, forgive, clean, close } = await open(browser, lab, { role: "viewer", path: "#/pair/a/b" });
  await showsNewRows(page, 7);
  await record(page);
  forgive(/ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE|Failed to load resource|answer 50/);

  const died = Date.now();
  await lab.stop("n1", "--kill"); // connections lead to n1 while it accepts them
  const gone = await until("the page to notice", async () => (await recorded(page))?.find(([, shown]) => shown));
  const back = await until("the other server to answer", async () => (await recorded(page))?.find(([at, shown]) => at > gone[0] && !shown));
  console.log(`the page noticed after ${gone[0] - died} ms and was connected again after ${back[0] - died} ms`);
  await showsNewRows(page, 9);

  const banner = page.getByRole("alert").filter({ hasText: /No answer from the server/ });
  await lab.stop("n2", "--kill");
  await banner.waitFor();
  await lab.start("n1");
  await banner.waitFor({ state: "detached" });
  await showsNewRows(page, 12);
  expect(await recorded(page), "the page was not reloaded").toBeDefined();
  clean();
  await close();
});
