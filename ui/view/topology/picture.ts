// The picture of a graph of paths: groups, colours and highlights.
import type { Dot, Picture, Stroke } from "../../chart/graph-draw.ts";
import type { Shape } from "../../chart/graph-layout.ts";
import { pairsOf } from "../../data/bound.ts";
import { groupsOf, type Group } from "../../data/group.ts";
import { isEnd, nodeName, type Graph, type Way } from "../../data/topology.ts";
import type { Path } from "../../gen/topology_pb.ts";
import { colourOf, figureOf, type Losses } from "./grade.ts";

/** More hosts than this are grouped. */
const hostsMost = 60;

/** A graph with its hosts grouped. */
export interface Grouped {
  graph: Graph;
  /** By id of host node. */
  groups: Map<string, Group>;
  shape: Shape;
}

/** Groups hosts, except those in expanded groups. */
export function grouped(graph: Graph, open: ReadonlySet<string>): Grouped {
  const hosts = graph.nodes.filter((n) => n.kind === "agent").length;
  const groups = hosts > hostsMost ? groupsOf(graph.paths, open) : new Map<string, Group>();
  const to = (id: string): string => groups.get(id)?.id ?? id;
  // A router with an agent forwards: it is drawn among the routers.
  const within = new Set(graph.paths.flatMap((p) => p.nodes.slice(1, -1)));
  const nodes = new Map(graph.nodes.map((n) => [to(n.id), { id: to(n.id), rim: isEnd(n) && !within.has(n.id), was: groups.has(n.id) ? [] : n.addresses.map((a) => `router:${a}`) }]));
  const ways = new Map<string, Shape["ways"][number]>();
  for (const path of graph.paths) {
    const along = path.nodes.map(to);
    const way = { nodes: along, to: path.destination ? to(`agent:${path.destination}`) : undefined };
    ways.set(`${along.join(" ")} ${way.to}`, way);
  }
  return { graph, groups, shape: { nodes: [...nodes.values()], ways: [...ways.values()] } };
}

export interface Look {
  by: "delay" | "loss";
  losses: Losses;
  /** Paths are those between sites. */
  sites: boolean;
  /** The highlighted path. */
  path?: Path;
  /** Ids of the selected hosts. */
  ends: string[];
}

/** Makes the picture. */
export function pictureOf({ graph, groups }: Grouped, look: Look): Picture {
  const to = (id: string): string => groups.get(id)?.id ?? id;
  const strokes = strokesOf(graph, to, look);
  const lit = new Set<string>();
  look.path?.nodes.forEach((node, i, nodes) => {
    lit.add(to(node));
    const before = nodes[i - 1];
    if (before) lit.add(strokeId(to(before), to(node)));
  });
  if (look.path) for (const end of look.ends) lit.add(to(end));
  return { dots: dotsOf(graph, groups, look.ends), strokes, lit, ends: new Set(look.ends.map(to)) };
}

function dotsOf(graph: Graph, groups: Map<string, Group>, ends: string[]): Dot[] {
  const loads = new Map<string, number>();
  for (const { there, back } of graph.links) {
    for (const way of back ? [there, back] : [there]) loads.set(way.to, (loads.get(way.to) ?? 0) + way.paths.length);
  }
  const dots = new Map<string, Dot>();
  for (const node of graph.nodes) {
    const group = groups.get(node.id);
    if (group) dots.set(group.id, { id: group.id, kind: "group", label: groupName(group, ends), title: `${group.hosts.length} hosts behind ${group.router.slice("router:".length)}; click to expand`, weight: 2e5 });
    else if (node.kind === "site") dots.set(node.id, { id: node.id, kind: "group", label: `${node.site} (${node.agents})`, title: `site ${node.site}: ${node.agents === 1 ? "one host" : `${node.agents} hosts`}; click to show ${node.agents === 1 ? "it" : "them"}`, weight: 2e5 });
    else if (node.kind === "agent") dots.set(node.id, { id: node.id, kind: "agent", label: nodeName(node), title: nodeName(node), weight: 1e5 + (loads.get(node.id) ?? 0) });
    else dots.set(node.id, { id: node.id, kind: node.kind === "router" ? "router" : "unknown", label: nodeName(node), title: node.kind !== "router" ? "did not answer" : node.ioam && node.addresses.length === 0 ? `router ${node.ioam}, known by its IOAM identifier` : nodeName(node), weight: loads.get(node.id) ?? 0 });
  }
  return [...dots.values()];
}

/** A group is called after the chosen host that is in it. */
function groupName({ hosts }: Group, ends: string[]): string {
  const chosen = ends.find((id) => hosts.includes(id));
  return chosen ? `${chosen.slice("agent:".length)} and ${hosts.length - 1} more` : `${hosts.length} hosts`;
}

const strokeId = (a: string, b: string): string => (a < b ? `${a} ~ ${b}` : `${b} ~ ${a}`);

/** Edges drawn as one line. */
interface Bundle {
  from: string;
  to: string;
  there: Way[];
  back: Way[];
}

function strokesOf(graph: Graph, to: (id: string) => string, look: Look): Stroke[] {
  const bundles = new Map<string, Bundle>();
  for (const link of graph.links) {
    for (const way of link.back ? [link.there, link.back] : [link.there]) {
      const [a, b] = [to(way.from), to(way.to)];
      if (a === b) continue;
      const id = strokeId(a, b);
      let bundle = bundles.get(id);
      if (!bundle) bundles.set(id, (bundle = { from: a, to: b, there: [], back: [] }));
      (a === bundle.from ? bundle.there : bundle.back).push(way);
    }
  }
  return [...bundles].map(([id, bundle]) => strokeOf(id, bundle, look));
}

function strokeOf(id: string, { from, to, there, back }: Bundle, { by, losses, sites }: Look): Stroke {
  const worst = (ways: Way[]) => ways.map((w) => figureOf(w, by, losses)).reduce((a, b) => ((b.value ?? -1) > (a.value ?? -1) ? b : a));
  const [out, home] = [worst(there), back.length > 0 ? worst(back) : undefined];
  const most = there.length + back.length > 2 ? "up to " : "";
  const value = Math.max(out.value ?? -1, home?.value ?? -1);
  const known = value >= 0 ? value : undefined;
  const pairs = new Set([...there, ...back].flatMap((w) => [...pairsOf(w)])).size;
  const users = sites ? (pairs === 1 ? "one path shown" : `${pairs} paths shown`) : pairs === 1 ? "one pair" : `${pairs} pairs`;
  return {
    id, from, to, both: back.length > 0, colour: colourOf(known, by), dashed: known === undefined,
    width: 1.8 + Math.min(4, 1.3 * Math.log10(Math.max(1, pairs))),
    label: most + (home ? `there ${out.text}\nback ${home.text}` : out.text),
    title: `${home ? `there: ${out.long}\nback: ${home.long}` : out.long}\nused by ${users}`,
  };
}
