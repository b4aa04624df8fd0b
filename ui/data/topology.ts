// The paths between hosts and their graph.
import { signal } from "@preact/signals";
import type { GetTopologyResponse, Node, OneWay, Path } from "../gen/topology_pb.ts";
import { topologyClient } from "./client.ts";
import { resource } from "./resource.ts";

/** What is requested. */
export interface Scope {
  /** Session of the paths; empty: all. */
  session: string;
  /** By site: the sites whose hosts are shown nevertheless; undefined: all hosts are shown. */
  open?: readonly string[] | undefined;
}

const scope = signal<Scope>({ session: "" });
const same = (a: Scope, b: Scope): boolean => a.session === b.session && a.open?.join() === b.open?.join();

// Answers with very many paths are slow to decode and are requested less often.
const many = 4000;
const manyRefreshMs = 60_000;
let kept: { answer: GetTopologyResponse; of: Scope; at: number } | undefined;

/** The topology of the selected scope. */
export const topology = resource(5000, async (abort) => {
  const of = scope.peek();
  if (kept && same(kept.of, of) && kept.answer.paths.length > many && Date.now() - kept.at < manyRefreshMs) return kept.answer;
  const answer = await topologyClient.getTopology({ session: of.session, bySite: of.open !== undefined, openSites: [...(of.open ?? [])] }, { signal: abort });
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

export const familyOf = (path: Path): Family => (path.address.includes(":") ? "6" : "4");

/** A pair of hosts in the address of the page. */
export const pairName = (source: string, destination: string): string => `${source}>${destination}`;

/** One direction of an edge. */
export interface Way {
  from: string;
  to: string;
  /** Difference of the traced round-trip times, ns, at least 0; undefined: an end did not reply. */
  rtt?: number;
  /** The difference was negative: replies of the near end took longer. */
  negative: boolean;
  /** Delay from one end to the other, measured in packets. */
  oneWay?: OneWay;
  /** The paths that use it. */
  paths: Path[];
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
  paths: Path[];
}

const linkId = (from: string, to: string): string => (from < to ? `${from} ~ ${to}` : `${to} ~ ${from}`);

/** A node at the ends of paths: a host, or all hosts of a site. */
export const isEnd = (node: Node): boolean => node.kind === "agent" || node.kind === "site";

/** The sites at the ends of a path; empty: a host without a site, or of an open one. */
export const sitesOf = (path: Path): [string, string] => [siteIn(path.nodes[0]), siteIn(path.nodes.at(-1))];
const siteIn = (id = ""): string => (id.startsWith("site:") ? id.slice("site:".length) : "");

/** The graph of the paths of a family, with all hosts and sites. */
export function graphOf(answer: GetTopologyResponse, family: Family): Graph {
  const paths = answer.paths.filter((p) => family === "all" || familyOf(p) === family);
  const figures = new Map(answer.edges.map((e) => [`${e.from} ${e.to}`, e]));
  const ways = new Map<string, Way>();
  const used = new Set<string>();
  for (const path of paths) {
    path.nodes.forEach((to, i) => {
      used.add(to);
      const from = path.nodes[i - 1];
      if (from === undefined || from === to) return;
      const key = `${from} ${to}`;
      let way = ways.get(key);
      if (!way) {
        const edge = figures.get(key);
        const rtt = edge?.measured ? Number(edge.rttNs) : undefined;
        way = { from, to, rtt: rtt === undefined ? undefined : Math.max(0, rtt), negative: rtt !== undefined && rtt < 0, oneWay: edge?.oneWay, paths: [] };
        ways.set(key, way);
      }
      way.paths.push(path);
    });
  }
  const links = new Map<string, Link>();
  for (const way of ways.values()) {
    const id = linkId(way.from, way.to);
    const link = links.get(id);
    if (link) link.back = way;
    else links.set(id, { id, there: way });
  }
  return { nodes: answer.nodes.filter((n) => isEnd(n) || used.has(n.id)), links: [...links.values()], paths };
}

/** Label of a node: site, host name, router address, identifier of an IOAM node, or a question mark. */
export const nodeName = (node: Node): string => (node.kind === "site" ? node.site : node.agent) || node.addresses[0] || node.ioam || "?";
