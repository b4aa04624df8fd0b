import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { EventSchema } from "../gen/server_pb.ts";
import { changeOf } from "./changes.ts";
import { groupsOf } from "./group.ts";
import { answerOf } from "./topology.fixture.ts";
import { graphOf, isEnd, nodeName, sitesOf, stepsOf, topologyOf } from "./topology.ts";

const node = (id: string) => ({ id, kind: id.split(":")[0] ?? "", agent: id.startsWith("agent:") ? id.slice(6) : "", addresses: [] as string[] });
const path = (address: string, ...nodes: string[]) => ({ source: nodes[0]?.slice(6) ?? "", destination: nodes.at(-1)?.slice(6) ?? "", address, nodes });
const answer = topologyOf(answerOf(
  ["agent:a", "agent:b", "agent:c", "router:r1", "router:r2", "router:six"].map(node),
  [
    { from: "agent:a", to: "router:r1", rttNs: 5000n, measured: true }, { from: "router:r1", to: "agent:b", rttNs: -7n, measured: true },
    { from: "agent:a", to: "agent:c", rttNs: 1n, measured: true }, { from: "agent:c", to: "agent:a", rttNs: 2n, measured: false },
  ],
  [
    path("10.0.0.2", "agent:a", "router:r1", "agent:b"), path("10.0.0.3", "agent:a", "agent:c"), path("10.0.0.1", "agent:c", "agent:a"),
    path("fd00::2", "agent:a", "router:six", "agent:b"),
  ],
));

it("reads paths from columns", () => {
  expect(answer.paths.map((p) => stepsOf(p).map((n) => answer.nodes[n]?.id))).toEqual([
    ["agent:a", "router:r1", "agent:b"], ["agent:a", "agent:c"], ["agent:c", "agent:a"], ["agent:a", "router:six", "agent:b"],
  ]);
  expect(answer.paths[3]).toMatchObject({ source: "a", destination: "b", address: "fd00::2", protocol: "udp", kind: "traceroute", reached: true, pair: 0 });
  expect(answer.pairs).toBe(3);
});

it("makes the graph of one family, with all hosts", () => {
  const graph = graphOf(answer, "4");
  expect(graph.nodes.map((n) => n.id)).toEqual(["agent:a", "agent:b", "agent:c", "router:r1"]);
  expect(graph.paths).toHaveLength(3);
  expect(graphOf(answer, "all").nodes.map((n) => n.id)).toContain("router:six");
});

it("makes one edge of two directions with both figures, and none below zero", () => {
  const graph = graphOf(answer, "4");
  const both = graph.links.find((l) => l.back);
  expect(both?.there).toMatchObject({ from: "agent:a", to: "agent:c", rtt: 1 });
  expect(both?.back).toMatchObject({ from: "agent:c", to: "agent:a", rtt: undefined, negative: false });
  expect(graph.links.find((l) => l.there.to === "agent:b")?.there).toMatchObject({ rtt: 0, negative: true });
  expect(graph.links).toHaveLength(3);
});

it("groups hosts behind one router, except in open groups", () => {
  const words = Array.from({ length: 9 }, (_, i) => path("10.0.0.2", `agent:h${i}`, i < 6 ? "agent:r1" : "router:r2", "agent:b"));
  const { nodes, paths } = topologyOf(answerOf([...new Set(words.flatMap((p) => p.nodes))].map(node), [], words));
  const groups = groupsOf(nodes, paths, new Set());
  expect([...groups.keys()]).toEqual(["agent:h0", "agent:h1", "agent:h2", "agent:h3", "agent:h4", "agent:h5"]);
  expect(groups.get("agent:h0")).toMatchObject({ id: "group:agent:r1", router: "r1" });
  expect(groupsOf(nodes, paths, new Set(["group:agent:r1"])).size).toBe(0);
});

it("reads changes from events", () => {
  const change = (message: string) => changeOf(create(EventSchema, { time: { seconds: 5n }, agent: "a", peer: "b", message }));
  expect(change("path from a to b (fd77::2, udp) changed: was r1 > ? > b, is r1 > r3 > not reached")).toMatchObject({
    time: 5000, path: { source: "a", destination: "b", address: "fd77::2", protocol: "udp" },
  });
  expect(change("something else").path).toEqual({ source: "a", destination: "b", address: "", protocol: "" });
});

it("shows sites as ends of paths, even without a path", () => {
  const site = (name: string, agents: number) => ({ id: `site:${name}`, kind: "site", site: name, agents, addresses: [] });
  const bySite = topologyOf(answerOf(
    [site("berlin", 12), site("oslo", 3), site("lima", 1), node("router:r1"), node("agent:b"), node("router:old")], [],
    [
      { source: "a", destination: "c", address: "10.0.0.2", nodes: ["site:berlin", "router:r1", "site:oslo"] },
      { source: "a", destination: "b", address: "10.0.0.3", nodes: ["site:berlin", "router:r1", "agent:b"] },
    ],
  ));
  const graph = graphOf(bySite, "4");
  expect(graph.nodes.map(nodeName)).toEqual(["berlin", "oslo", "lima", "?", "b"]);
  expect(graph.nodes.filter(isEnd)).toHaveLength(4);
  expect(graph.links.map((l) => l.id)).toEqual(["router:r1 ~ site:berlin", "router:r1 ~ site:oslo", "agent:b ~ router:r1"]);
  expect(graph.paths.map((p) => sitesOf(p, graph.all))).toEqual([["berlin", "oslo"], ["berlin", ""]]);
});
