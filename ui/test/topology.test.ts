// The graph of a lab with three routers and an alternative path around one of them.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { GetTopologyResponseSchema, OneWaySchema, type OneWay, type TopologyColumns } from "../gen/topology_pb.ts";
import { atRest, barriers, launch, open, overhang, screenshot, updates } from "./browser.ts";
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
  // The rightmost node is b, whose name appears under the pointer; a click selects it.
  await page.getByText("Loading the graph").waitFor({ state: "detached" });
  const box = await picture.boundingBox();
  if (!box) throw new Error("the graph has no place");
  const names: string[] = [];
  await until("a node under the pointer", async () => {
    for (let x = box.width - 4; x > 0; x -= 8) {
      await page.mouse.move(box.x + x, box.y + box.height / 2);
      const tip = page.locator(".graph-tip");
      if (!(await tip.isVisible())) continue;
      names.push(await tip.innerText());
      await page.mouse.down();
      await page.mouse.up();
      return true;
    }
    return false;
  });
  expect(["a", "b"]).toContain(names[0]);
  await page.getByText(/^From (a to \?|b to \?)$/).waitFor();
  await page.getByRole("button", { name: "a to b" }).first().click();
  const hops = page.getByRole("region", { name: "a to b", exact: true });
  // r1 answers from the end of its link to a, the third from its end to r2.
  await expect.poll(() => hops.innerText()).toContain("10.77.1.2");
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
  await expect.poll(() => again.page.getByRole("region", { name: "a to b", exact: true }).innerText()).toContain("10.77.1.2");
  again.clean();
  await again.close();
});

/** Adds a path that routers wrote into packets to the server's answers: a - 0x000101 - r2 - 0x000103 - b. */
async function inPackets(page: Page): Promise<void> {
  const delay = (us: number, rest = {}) => create(OneWaySchema, {
    packets: 100n, minNs: BigInt(us * 990), meanNs: BigInt(us * 1000), p50Ns: BigInt(us * 1000), p99Ns: BigInt(us * 1150), uncertaintyNs: 1000n, ...rest,
  });
  const delays = [delay(1012), delay(3048, { clockErrorNs: 120_000n, clockKnown: true }), delay(2007), delay(1009, { clockErrorNs: 90_000n, clockKnown: true })];
  const nodes = ["agent:a", "ioam:0x000101", "agent:r2", "ioam:0x000103", "agent:b"];
  await page.route("**/pillion.v1.TopologyService/GetTopology", async (route) => {
    const answer = fromBinary(GetTopologyResponseSchema, await (await route.fetch()).body());
    const time = timestampNow();
    const added = create(GetTopologyResponseSchema, {
      nodes: [{ id: "ioam:0x000101", kind: "router", ioam: "0x000101" }, { id: "agent:r2", kind: "agent", agent: "r2", ioam: "0x000102" }, { id: "ioam:0x000103", kind: "router", ioam: "0x000103" }],
      paths: [{
        source: "a", destination: "b", address: "fd77::4:2", protocol: "ioam", kind: "ioam", reached: true, time, changed: time, nodes, intervalNs: 1_000_000_000n,
        oneWay: delay(7076, { uncertaintyNs: 1n, clockErrorNs: 60_000n, clockKnown: true }),
        hops: delays.map((oneWay, i) => ({ ttl: i + 1, oneWay, ...(i === 1 && {
          input: "r1", output: "r3", stagesTime: time, stages: [
            { stage: "input_queuing", packets: 100n, meanNs: 1900n }, { stage: "processing", packets: 100n, meanNs: 3100n },
            { stage: "output_queuing", packets: 100n, meanNs: 12_400n }, { stage: "transit", packets: 100n, meanNs: 17_400n },
          ],
        }) })),
      }],
    });
    answer.nodes.push(...added.nodes.filter((n) => !answer.nodes.some((m) => m.id === n.id)));
    if (answer.columns) addPath(answer.columns, nodes.map((id) => answer.nodes.findIndex((n) => n.id === id)), delays);
    else answer.paths.unshift(...added.paths);
    await route.fulfill({ contentType: "application/proto", body: Buffer.from(toBinary(GetTopologyResponseSchema, answer)) });
  });
}

/** Adds the path from a to b, and its edges, to columns. */
function addPath(columns: TopologyColumns, nodes: number[], delays: OneWay[]): void {
  const edges = columns.edgeFrom.length;
  columns.edgeFrom.push(...nodes.slice(0, -1));
  columns.edgeTo.push(...nodes.slice(1));
  columns.edgeRttNs.push(...delays.map(() => 0n));
  columns.edgeMeasured.push(...delays.map(() => false));
  columns.oneWayEdges.push(...delays.map((_, i) => edges + i));
  columns.oneWays.push(...delays);
  const [source, destination] = ["a", "b"].map((name) => columns.agents.indexOf(name)) as [number, number];
  columns.sources.push(source);
  columns.destinations.push(destination);
  columns.pathAddresses.push(columns.addresses.push("fd77::4:2") - 1);
  columns.pathProtocols.push(columns.protocols.push("ioam") - 1);
  columns.routes.push(columns.routeLengths.push(nodes.length - 2) - 1);
  columns.routeNodes.push(...nodes.slice(1, -1));
  columns.arrives.push(true);
  columns.reached.push(true);
  columns.ageS.push(0);
  columns.unchangedS.push(0);
}

test("hops measured in packets have one-way delays, and a traceroute has round trips", async () => {
  const { page, clean, close } = await open(browser, lab, { role: "viewer", width: 1440, height: 1000 });
  await inPackets(page);
  await page.goto(`${lab.url}/#/topology?pair=a%3Eb`);
  await page.reload();
  const path = page.getByRole("region", { name: "a to b", exact: true });
  await expect.poll(() => path.innerText()).toMatch(/One-way delay\s+99 %/);
  const text = (await path.innerText()).replace(/\s+/g, " ");
  expect(text).toContain("0x000101 1.01 ms ± 1.00 µs, clock unknown");
  expect(text).toContain("r2 3.05 ms ± 1.00 µs, clocks ± 120 µs");
  expect(text).toMatch(/Inside the router 17\.4 µs on average, r1 to r3 input queuing 1\.90 µs processing 3\.10 µs output queuing 12\.4 µs/);
  expect(text).toMatch(/End to end 7\.08 ms ± 1 ns, clocks ± 60\.0 µs/);
  expect(text).not.toMatch(/Round trip/);
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme });
    await atRest(page);
    expect(await overhang(page)).toBeLessThanOrEqual(0);
    expect(await barriers(page)).toEqual([]);
    if (!updates) await screenshot(page, "hops", theme); // no picture for the documents: the path is made up
  }
  await path.getByLabel("Measured to").selectOption({ label: "10.77.4.2, traceroute, udp" });
  await expect.poll(async () => (await path.innerText()).replace(/\s+/g, " ")).toMatch(/Round trip Replies .*not the delay of a hop/);
  clean();
  await close();
});

test("a path change is on the timeline", async () => {
  const { page, clean, close } = await open(browser, lab, { role: "viewer", path: "#/topology" });
  const changes = page.getByRole("region", { name: "Path changes" });
  await changes.waitFor();
  // A hop that did not answer agrees with any, so the second change is the one that counts.
  await lab.exec("r1", "ip", "route", "replace", "10.77.4.2/32", "via", "10.77.5.2");
  await until("the way around", async () => (await path())[2]?.startsWith("router:"));
  await lab.exec("r2", "sh", "-c", "ip rule del pref 1; ip -6 rule del pref 1");
  await lab.exec("r1", "ip", "route", "replace", "10.77.4.2/32", "via", "10.77.2.2");
  await until("the event", async () => /path-changed/.test(await lab.pillion("events")));
  await expect.poll(() => changes.innerText()).not.toMatch(/No path changed/);
  expect(await changes.innerText()).toMatch(/a (→|to|>) b/);
  clean();
  await close();
});
