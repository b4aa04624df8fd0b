// The inside of a router beside the delay of the path that leads through it.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { barriers, launch, open, screenshot } from "./browser.ts";
import { until } from "./command.ts";
import { raise, type Lab } from "./lab.ts";

/** A router between two hosts, and a steady flow through it. */
const throughRouter = `
hosts: {a: {run: ["ping -q -i 0.01 -s 200 10.77.2.2"]}, r: {forward: true}, b: {}, noc: {}}
links:
  - {ends: [a, r]}
  - {ends: [r, b], emulate: {seed: 7, delay: 2ms}}
  - {ends: [noc, r]}`;

let lab: Lab;
let browser: Browser;
beforeAll(async () => {
  [lab, browser] = await Promise.all([raise(throughRouter, "noc", ["a", "r", "b"]), launch()]);
});
afterAll(async () => {
  await browser?.close();
  await lab?.down();
});

/** A time parsed from text, ms; NaN: none. */
function ms(text: string): number {
  const [, figure = "", unit = ""] = /([\d.,]+)\s*(ns|µs|ms|s)\b/.exec(text) ?? [];
  return parseFloat(figure.replace(",", ".")) * ({ ns: 1e-6, "µs": 1e-3, ms: 1, s: 1e3 }[unit] ?? NaN);
}

test("a queue at the router's output rises in its stage as it does in the delay, and the sender's figures are beside it", async () => {
  await lab.pillion("session", "create", "--name", "through", "--from", "a", "--to", "b", "--both", "--router", "r", "--trace", "5s",
    "--point", "send:pattern=train,count=20,gap=500us,every=1s,delay=0s");
  const { page, clean, close } = await open(browser, lab, { role: "viewer", path: "#/pair/a/b?range=1m", height: 1340 });
  const chart = (name: string) => page.getByRole("figure", { name });
  const latest = async (name: string, line: string): Promise<number> => {
    const entry = chart(name).locator(".chart-entry").filter({ hasText: line }).first();
    return (await entry.count()) === 0 ? NaN : ms((await entry.locator(".chart-value").innerText()) ?? "");
  };
  const [delay, stage] = ["Delay a → b", "Inside router r: a → b"];
  await chart(stage).waitFor();
  const sent = page.locator("section").filter({ has: chart("Lateness of departures a → b") });
  const figure = (name: string) => sent.locator(".pair-figure").filter({ hasText: new RegExp(`^${name}`) }).locator("dd").innerText();
  await until("packets of the sender", async () => (await sent.count()) > 0 && parseInt(await figure("Sent")) > 20);
  expect(await sent.locator("h3").innerText()).toBe("train of 20 × 100 B, gap 500us, every 1s, udp port 9 session through");
  expect([await figure("Requested"), await figure("Failed"), await figure("Mechanism")]).toEqual(["1.60 Mbit/s", "0", "bpf"]);
  expect(ms(await figure("Lateness p50"))).toBeGreaterThan(0);
  await until("calm", async () => (await latest(delay, "median")) < 10 && (await latest(stage, "output queuing")) < 5);
  await lab.exec("r", "tc", "qdisc", "add", "dev", "b", "root", "tbf", "rate", "160kbit", "burst", "600", "limit", "6000");
  await until("the delay to rise", async () => (await latest(delay, "median")) > 50);
  await until("the output's stage to rise", async () => (await latest(stage, "output queuing")) > 50);
  expect(await latest(stage, "processing")).toBeLessThan(10);
  await chart("Inside router r: b → a").waitFor(); // locators are strict: there is exactly one
  await page.getByText("From a to b. Median").waitFor();
  await until("the output's queue to fill", async () => {
    const entry = chart("Queues of r: a → b").locator(".chart-entry").filter({ hasText: "output b" }).first();
    return (await entry.count()) > 0 && parseFloat(await entry.locator(".chart-value").innerText()) > 5;
  });
  // One time for both: the crosshair is at the latest window of the stage.
  await chart(stage).locator("canvas").first().scrollIntoViewIfNeeded();
  const box = await chart(stage).locator(".chart-stage").boundingBox();
  if (!box) throw new Error("the chart has no place");
  await page.mouse.move(box.x + box.width * 0.9, box.y + box.height / 2);
  const when = (name: string) => chart(name).locator(".chart-when").innerText();
  await expect.poll(async () => (await when(delay)) === (await when(stage)) && (await when(stage)) !== "latest").toBe(true);
  expect(await barriers(page)).toEqual([]);
  await screenshot(page, "router", "light");
  await lab.exec("r", "tc", "qdisc", "del", "dev", "b", "root");
  await page.mouse.move(0, 0);
  await until("calm again", async () => (await latest(delay, "median")) < 10 && (await latest(stage, "output queuing")) < 5);
  clean();
  await close();
});
