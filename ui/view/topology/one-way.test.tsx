// The hops of a path with one-way delays, as the API describes it.
import { create } from "@bufbuild/protobuf";
import { render } from "preact";
import { expect, test } from "vitest";
import { clockError, methodOf, oneWaySentence, spansOf } from "../../data/one-way.ts";
import { answerOf } from "../../data/topology.fixture.ts";
import { graphOf, nodeName, topologyOf } from "../../data/topology.ts";
import { HopSchema, NodeSchema, OneWaySchema, PathSchema } from "../../gen/topology_pb.ts";
import { chosenPaths, shownFamily, type Choice } from "./choice.ts";
import { colourOf, figureOf } from "./grade.ts";
import { Hops } from "./hops.tsx";
import { OneWays } from "./one-way.tsx";

const delay = (us: number, rest = {}) => create(OneWaySchema, { packets: 10n, meanNs: BigInt(us * 1000), p50Ns: BigInt(us * 1000), p99Ns: BigInt(us * 2000), uncertaintyNs: 1000n, ...rest });
const path = create(PathSchema, {
  source: "a", destination: "b", address: "fd77::2", protocol: "ioam", kind: "ioam", reached: true, intervalNs: 1_000_000_000n,
  nodes: ["agent:a", "ioam:0x000101", "agent:r2", "agent:b"], otherPackets: 3n, overflowed: 1n, oneWay: delay(4000, { uncertaintyNs: 1n, clockKnown: true }),
  hops: [
    { ttl: 1, oneWay: delay(1000) },
    { ttl: 2, oneWay: delay(3000, { clockErrorNs: 5000n, clockKnown: true }), skipped: 2, input: "east", output: "west", stages: [
      { stage: "input_queuing", packets: 9n, meanNs: 1000n }, { stage: "processing", packets: 9n, meanNs: 2000n }, { stage: "transit", packets: 9n, meanNs: 3000n },
    ] },
    { ttl: 3, stagesUnknown: true },
  ],
});
const nodes = (id: string) => ({ name: id.split(":")[1] ?? "", agent: id.startsWith("agent:") });

const shown = (view: preact.ComponentChild): HTMLElement => {
  const box = document.createElement("div");
  render(view, box);
  return box;
};
const rowsOf = (box: Element): string[][] => [...box.querySelectorAll("tr")].map((row) => [...row.children].map((c) => c.textContent ?? ""));

test("each hop has its one-way delay, its error, and what is inside its router", () => {
  const box = shown(<OneWays path={path} nodes={nodes} />);
  expect(rowsOf(box)).toEqual([
    ["Hop", "To node", "One-way delay", "99 %"],
    ["1", "0x000101", "1.00 ms± 1.00 µs, clock unknown", "2.00 ms"],
    ["2", "r2behind 2 routers without a time stamp", "3.00 ms± 1.00 µs, clocks ± 5.00 µs", "6.00 ms"],
    ["", "Inside the router 3.00 µs on average, east to westinput queuing 1.00 µsprocessing 2.00 µs"],
    ["3", "b", "no time stamp", "–"],
    ["", "Profiled, but no traceroute shows by which interfaces this path passes the router."],
    ["", "End to end", "4.00 ms± 1 ns", "8.00 ms"],
  ]);
  expect(box.textContent).toContain("3 packets of the last interval took another path.");
  expect(box.textContent).toContain("The trace of 1 packet had no room");
  expect([...box.querySelectorAll<HTMLElement>(".stage-line i")].map((i) => parseFloat(i.style.width))).toEqual([expect.closeTo(100 / 3), expect.closeTo(200 / 3)]);
  expect(box.textContent).not.toMatch(/round trip/i);
});

test("losses of edges stand beside them if the graph shows losses", () => {
  const rows = rowsOf(shown(<OneWays path={path} nodes={nodes} losses={[{ value: 0.5, text: "≤ 50 %", long: "" }, undefined, undefined]} />));
  expect(rows.filter((r) => r.length === 5).map((r) => r[4])).toEqual(["Link loss", "≤ 50 %", "–", "–", ""]);
});

test("a traceroute is named as one, also with stages of a router", () => {
  const hop = create(HopSchema, { ttl: 1, address: "10.0.0.1", rttNs: 2000n, sent: 3, answers: 3, input: "eth0", output: "eth1", stages: [{ stage: "processing", meanNs: 900n }] });
  const box = shown(<Hops hops={[hop]} naming={() => ({ host: "r1" })} reached edges={[]} what="Link" />);
  expect(rowsOf(box)[0]).toEqual(["Hop", "Address", "Round trip", "Replies", "Link"]);
  expect(box.textContent).toContain("not the delay of a hop");
  expect(box.textContent).toContain("processing 900 ns");
  expect([methodOf(path), methodOf({ kind: "traceroute", protocol: "udp" })]).toEqual(["in packets (IOAM)", "traceroute, udp"]);
});

test("an error says what is known of the clocks", () => {
  expect(clockError(delay(1))).toBe("clock unknown");
  expect(clockError(delay(1, { clockKnown: true }))).toBe("");
  expect(clockError(delay(1, { clockKnown: true, clockErrorNs: 50_000n }))).toBe("clocks ± 50.0 µs");
  expect(oneWaySentence(delay(-3, { packets: 1n }))).toBe("-3.00 µs one way: median of 1 packet, ± 1.00 µs by the time stamps; the error of a clock is unknown; negative because the clocks disagree");
  expect(spansOf(path.hops)).toEqual([{ from: 0, length: 0.25 }, { from: 0.25, length: 0.75 }, { from: 1, length: 0 }]);
});

test("an edge shows the one-way delay where there is one", () => {
  const answer = topologyOf(answerOf(
    [{ id: "agent:a", kind: "agent", agent: "a" }, { id: "ioam:0x000101", kind: "router", ioam: "0x000101" }],
    [{ from: "agent:a", to: "ioam:0x000101", rttNs: 9_000_000n, measured: true, oneWay: delay(150) }],
    [{ source: "a", destination: "", address: "fd77::2", protocol: "ioam", nodes: ["agent:a", "ioam:0x000101"] }],
  ));
  const way = graphOf(answer, "6").links.find((l) => l.there.to === "ioam:0x000101")?.there;
  if (!way) throw new Error("no edge");
  const figure = figureOf(way, undefined);
  expect(figure).toMatchObject({ value: 150_000, text: "150 µs one way" });
  expect(colourOf(figure.value, "delay")).toBe("--heat-2");
  expect(figureOf({ ...way, oneWay: delay(-5) }, undefined)).toMatchObject({ value: 0, text: "-5.00 µs one way" });
  expect(nodeName(create(NodeSchema, { id: "ioam:0x000101", ioam: "0x000101" }))).toBe("0x000101");
});

test("the path of a pair is the one measured in packets, if there is one", () => {
  const ends = { source: "a", destination: "b", nodes: ["agent:a", "agent:b"] };
  const { paths: all } = topologyOf(answerOf(
    [{ id: "agent:a" }, { id: "agent:b" }], [],
    [{ ...ends, address: "10.0.0.2" }, { ...ends, address: "fd77::2", protocol: "icmp" }, { ...ends, address: "fd77::2", protocol: "ioam" }],
  ));
  const traced = all.slice(0, 2);
  const choice: Choice = { source: "a", destination: "b", address: "", protocol: "", by: "delay", session: "" };
  expect(shownFamily(choice, traced)).toBe("4");
  expect(shownFamily(choice, all)).toBe("6");
  expect(shownFamily({ ...choice, destination: "c" }, all)).toBe("4");
  expect(chosenPaths(choice, all, "6").shown).toBe(all[2]);
  expect(chosenPaths({ ...choice, address: "fd77::2", protocol: "icmp" }, all, "6").shown).toBe(traced[1]);
});
