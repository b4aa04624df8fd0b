// The graph of a lab with three routers and an alternative path around one of them.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./browser.ts";
import { until } from "./command.ts";
import { raise, type Lab } from "./lab.ts";

// a - r1 - r2 - r3 - b, and r1 - r4 - r3 as an alternative path; the server is on separate
// links. Packets that r2 itself sends are dropped: it forwards, but never replies.
const detour = `
hosts: {a: {run: ["ping -q -i 0.1 10.77.4.2"]}, r1: {forward: true}, r2: {forward: true}, r4: {forward: true}, r3: {forward: true}, b: {}, noc: {}}
links:
  - {ends: [a, r1]}
  - {ends: [r1, r2]}
  - {ends: [r2, r3]}
  - {ends: [r3, b]}
  - {ends: [r1, r4]}
  - {ends: [r4, r3]}
  - {ends: [a, noc]}
  - {ends: [b, noc]}`;

interface Graph {
  paths: { source: string; destination: string; address: string; reached: boolean; nodes: string[] }[];
  nodes: { id: string; kind: string }[];
  edges: { from: string; to: string }[];
}

let lab: Lab;
let browser: Browser;
beforeAll(async () => {
  [lab, browser] = await Promise.all([raise(detour, "noc", ["a", "b"]), launch()]);
  for (const host of ["r1", "r2", "r3", "r4", "b"]) {
    await lab.exec(host, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit; echo 0 > /proc/sys/net/ipv6/icmp/ratelimit");
  }
  await lab.exec("r2", "sh", "-c", "ip rule add iif lo pref 1 blackhole; ip -6 rule add iif lo pref 1 blackhole");
  await lab.pillion("session", "create", "--name", "first", "--from", "a", "--to", "b", "--family", "ipv4", "--trace", "5s");
});
afterAll(async () => {
  await browser?.close();
  await lab?.down();
});

const graph = async (): Promise<Graph> => JSON.parse(await lab.pillion("topology", "-o", "json")) as Graph;

/** The path from a to b according to the server. */
async function path(): Promise<string[]> {
  return (await graph()).paths.find((p) => p.source === "a" && p.destination === "b" && p.reached)?.nodes ?? [];
}

test("the graph shows the lab, with the hop that does not answer", async () => {
  const nodes = await until("the path", async () => {
    const found = await path();
    return found.length === 5 && found;
  });
  expect(nodes[2]).toMatch(/^unknown:/);
  const { page, clean, close } = await open(browser, lab, { role: "viewer", path: "#/topology" });
  const picture = page.getByRole("application", { name: /^Graph of/ });
  await picture.waitFor();
  await expect.poll(() => picture.getAttribute("aria-label")).toMatch(/between 2 hosts/);
  await page.getByRole("button", { name: "a to b" }).first().click();
  const hops = page.getByRole("region", { name: "a to b", exact: true });
  // r1 answers from the end of its link to a, the third from its end to r2.
  await expect.poll(() => hops.innerText(), { timeout: 60_000 }).toContain("10.77.1.2");
  const text = await hops.innerText();
  expect(text).toContain("10.77.3.2");
  expect(text).toMatch(/no reply/i);
  expect(page.url()).toMatch(/from=a|source=a|a.*b/);
  clean();
  await close();
});

test("a link leads to the pair that is highlighted", async () => {
  const { page, close } = await open(browser, lab, { role: "viewer", path: "#/topology" });
  await page.getByRole("button", { name: "a to b" }).first().click();
  const link = page.url();
  await close();
  const again = await open(browser, lab, { role: "viewer", path: new URL(link).hash });
  await expect.poll(() => again.page.getByRole("region", { name: "a to b", exact: true }).innerText(), { timeout: 60_000 }).toContain("10.77.1.2");
  again.clean();
  await again.close();
});

test("a path change is on the timeline", async () => {
  const { page, clean, close } = await open(browser, lab, { role: "viewer", path: "#/topology" });
  const changes = page.getByRole("region", { name: "Path changes" });
  await changes.waitFor();
  // A hop that did not answer agrees with any, so the second change is the one that counts.
  await lab.exec("r1", "ip", "route", "replace", "10.77.4.2/32", "via", "10.77.5.2");
  await until("the way around", async () => (await path())[2]?.startsWith("router:"), 30_000);
  await lab.exec("r2", "sh", "-c", "ip rule del pref 1; ip -6 rule del pref 1");
  await lab.exec("r1", "ip", "route", "replace", "10.77.4.2/32", "via", "10.77.2.2");
  await until("the event", async () => /path-changed/.test(await lab.pillion("events")), 40_000);
  await expect.poll(() => changes.innerText(), { timeout: 60_000 }).not.toMatch(/No path changed/);
  expect(await changes.innerText()).toMatch(/a (→|to|>) b/);
  clean();
  await close();
}, 120_000);
