// The paths between hosts and their graph.
import { signal } from "@preact/signals";
import type { GetTopologyResponse, Node, OneWay } from "../gen/topology_pb.ts";
import { topologyClient } from "./client.ts";
import { resource } from "./resource.ts";
import { nextTask } from "./task.ts";
import { millis } from "./time.ts";

/** What is requested. */
export interface Scope {
  /** Session of the paths; empty: all. */
  session: string;
  /** By site: the sites whose hosts are shown nevertheless; undefined: all hosts are shown. */
  open?: readonly string[] | undefined;
}

const scope = signal<Scope>({ session: "" });
const same = (a: Scope, b: Scope): boolean => a.session === b.session && a.open?.join() === b.open?.join();

// Graphs of very many paths take time to draw and are requested less often.
const many = 4000;
const manyRefreshMs = 30_000;
let kept: { answer: Topology; of: Scope; at: number } | undefined;

/** The topology of the selected scope. */
export const topology = resource(5000, async (abort) => {
  const of = scope.peek();
  if (kept && same(kept.of, of) && kept.answer.paths.length > many && Date.now() - kept.at < manyRefreshMs) return kept.answer;
  const asked = { session: of.session, bySite: of.open !== undefined, openSites: [...(of.open ?? [])], columns: true };
  const read = await topologyClient.getTopology(asked, { signal: abort });
  await nextTask();
  const answer = topologyOf(read);
  await nextTask();
  kept = { answer, of, at: Date.now() };
  return answer;
});

/** Requests the topology even if the last answer is recent. */
export function retrace(): Promise<void> {
  kept = undefined;
  return topology.refresh();
}

/** Selects what is requested. */
export function scopeTo(to: Scope): void {
  if (same(scope.peek(), to)) return;
  scope.value = to;
  void retrace().then(retrace); // the first request may still be for the old scope
}

/** Address families. */
export type Family = "4" | "6" | "all";

export const familyOf = (path: { address: string }): Family => (path.address.includes(":") ? "6" : "4");

/** A pair of hosts in the address of the page. */
export const pairName = (source: string, destination: string): string => `${source}>${destination}`;

/** A sequence of nodes between the ends of paths. */
interface Route {
  number: number;
  /** By index. */
  nodes: readonly number[];
}

/** A path without its hops. Nodes are by index in the topology. */
export interface PathEntry {
  source: string;
  destination: string;
  address: string;
  protocol: string;
  kind: "ioam" | "traceroute";
  reached: boolean;
  /** When it was last traced, and when it last changed, ms since 1970. */
  time: number;
  changed: number;
  /** Number of the pair of hosts. */
  pair: number;
  /** Nodes of the source and, if the path ends there, of the destination; -1: it does not. */
  from: number;
  to: number;
  route: Route;
}

/** Figures of an edge. */
interface EdgeFigures {
  rtt: number | undefined;
  oneWay: OneWay | undefined;
}

/** An answer of the server, read. */
export interface Topology {
  nodes: Node[];
  /** By source and destination. */
  paths: PathEntry[];
  /** By edgeKey. */
  edges: Map<number, EdgeFigures>;
  /** Number of pairs of hosts. */
  pairs: number;
}

const edgeKey = (from: number, to: number, nodes: number): number => from * nodes + to;

/** Reads the columns of an answer. */
export function topologyOf({ nodes, columns: c }: GetTopologyResponse): Topology {
  const edges = new Map<number, EdgeFigures>();
  if (!c) return { nodes, paths: [], edges, pairs: 0 };
  const oneWays = new Map(c.oneWayEdges.map((edge, i) => [edge, c.oneWays[i]]));
  c.edgeFrom.forEach((from, i) => {
    edges.set(edgeKey(from, c.edgeTo[i] ?? 0, nodes.length), { rtt: c.edgeMeasured[i] ? Number(c.edgeRttNs[i]) : undefined, oneWay: oneWays.get(i) });
  });
  let at = 0;
  const routes = c.routeLengths.map((length, number): Route => ({ number, nodes: c.routeNodes.slice(at, (at += length)) }));
  const now = millis(c.time) ?? Date.now();
  const pairs = new Map<number, number>();
  const paths = c.sources.map((source, i): PathEntry => {
    const destination = c.destinations[i] ?? 0;
    const key = source * c.agents.length + destination;
    let pair = pairs.get(key);
    if (pair === undefined) pairs.set(key, (pair = pairs.size));
    const protocol = c.protocols[c.pathProtocols[i] ?? 0] ?? "";
    return {
      source: c.agents[source] ?? "", destination: c.agents[destination] ?? "", address: c.addresses[c.pathAddresses[i] ?? 0] ?? "",
      protocol, kind: protocol === "ioam" ? "ioam" : "traceroute", reached: c.reached[i] ?? false,
      time: now - 1000 * (c.ageS[i] ?? 0), changed: now - 1000 * (c.unchangedS[i] ?? 0), pair,
      from: c.agentNodes[source] ?? 0, to: c.arrives[i] ? c.agentNodes[destination] ?? -1 : -1, route: routes[c.routes[i] ?? 0] ?? { number: 0, nodes: [] },
    };
  });
  return { nodes, paths, edges, pairs: pairs.size };
}

/** The nodes of a path by index, from the source to the last hop. */
export const stepsOf = ({ from, route, to }: PathEntry): number[] => (to < 0 ? [from, ...route.nodes] : [from, ...route.nodes, to]);

/** One direction of an edge. */
export interface Way {
  from: string;
  to: string;
  /** Difference of the traced round-trip times, ns, at least 0; undefined: an end did not reply. */
  rtt?: number | undefined;
  /** The difference was negative: replies of the near end took longer. */
  negative: boolean;
  /** Delay from one end to the other, measured in packets. */
  oneWay?: OneWay | undefined;
  /** The paths that use it; paths of one pair follow one another. */
  paths: PathEntry[];
}

/** An edge between two nodes: one way, or both. */
interface Link {
  id: string;
  there: Way;
  back?: Way;
}

/** A graph of paths. */
export interface Graph {
  nodes: Node[];
  links: Link[];
  paths: PathEntry[];
  /** All nodes, by the indices of paths. */
  all: Node[];
  /** Number of pairs of hosts. */
  pairs: number;
}

const linkId = (from: string, to: string): string => (from < to ? `${from} ~ ${to}` : `${to} ~ ${from}`);

/** A node at the ends of paths: a host, or all hosts of a site. */
export const isEnd = (node: Node): boolean => node.kind === "agent" || node.kind === "site";

/** The sites at the ends of a path; empty: a host without a site, or of an open one. */
export const sitesOf = (path: PathEntry, nodes: readonly Node[]): [string, string] => [siteIn(nodes[path.from]), siteIn(nodes[path.to])];
const siteIn = (node: Node | undefined): string => (node?.kind === "site" ? node.site : "");

/** The graph of the paths of a family, with all hosts and sites. */
export function graphOf({ nodes, paths: every, edges, pairs }: Topology, family: Family): Graph {
  const paths = family === "all" ? every : every.filter((p) => familyOf(p) === family);
  const ways = new Map<number, Way>();
  const used = new Uint8Array(nodes.length);
  const step = (from: number, to: number, path: PathEntry): void => {
    used[to] = 1;
    if (from === to) return;
    const key = edgeKey(from, to, nodes.length);
    let way = ways.get(key);
    if (!way) {
      const edge = edges.get(key);
      const rtt = edge?.rtt;
      way = { from: nodes[from]?.id ?? "", to: nodes[to]?.id ?? "", rtt: rtt === undefined ? undefined : Math.max(0, rtt), negative: rtt !== undefined && rtt < 0, oneWay: edge?.oneWay, paths: [] };
      ways.set(key, way);
    }
    way.paths.push(path);
  };
  for (const path of paths) {
    let before = path.from;
    used[before] = 1;
    for (const node of path.route.nodes) {
      step(before, node, path);
      before = node;
    }
    if (path.to >= 0) step(before, path.to, path);
  }
  const links = new Map<string, Link>();
  for (const way of ways.values()) {
    const id = linkId(way.from, way.to);
    const link = links.get(id);
    if (link) link.back = way;
    else links.set(id, { id, there: way });
  }
  return { nodes: nodes.filter((n, i) => isEnd(n) || used[i]), links: [...links.values()], paths, all: nodes, pairs };
}

/** Label of a node: site, host name, router's name by reverse DNS or address, identifier of an IOAM node, or a question mark. */
export const nodeName = (node: Node): string => (node.kind === "site" ? node.site : node.agent) || node.name || node.addresses[0] || node.ioam || "?";
