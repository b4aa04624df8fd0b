// The picture of a graph of paths: groups, colours and highlights.
import type { Shape } from "../../chart/graph-layout.ts";
import type { Dot, Picture, Stroke } from "../../chart/graph-scene.ts";
import { PairCounter, type Losses } from "../../data/bound.ts";
import { forwarding, groupsOf, type Group } from "../../data/group.ts";
import { isEnd, nodeName, stepsOf, type Graph, type PathEntry, type Way } from "../../data/topology.ts";
import { colourOf, figureOf } from "./grade.ts";

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
  const { all, paths } = graph;
  const hosts = graph.nodes.filter((n) => n.kind === "agent").length;
  const forwards = forwarding(paths);
  const groups = hosts > hostsMost ? groupsOf(all, paths, open, forwards) : new Map<string, Group>();
  const names = all.map((n) => groups.get(n.id)?.id ?? n.id);
  // A router with an agent forwards: it is drawn among the routers.
  const within = new Set([...forwards].map((n) => names[n]));
  const nodes = new Map(graph.nodes.map((n) => {
    const id = groups.get(n.id)?.id ?? n.id;
    return [id, { id, rim: isEnd(n) && !within.has(id), was: id === n.id ? n.addresses.map((a) => `router:${a}`) : [] }];
  }));
  return { graph, groups, shape: { nodes: [...nodes.values()], ways: waysOf(paths, names) } };
}

/** The ways of paths between groups; paths with the same ends and route have one way. */
function waysOf(paths: readonly PathEntry[], names: readonly string[]): Shape["ways"] {
  const numbers = new Map<string, number>();
  const numberOf = (name: string): number => {
    let number = numbers.get(name);
    if (number === undefined) numbers.set(name, (number = numbers.size + 1));
    return number;
  };
  const ends = names.map(numberOf);
  const seen: Set<number>[] = []; // by route
  const ways = new Map<string, Shape["ways"][number]>();
  for (const path of paths) {
    const to = path.to >= 0 ? names[path.to] : path.destination ? `agent:${path.destination}` : undefined;
    const lane = ((ends[path.from] ?? 0) * (names.length + 2) + (to === undefined ? 0 : numberOf(to))) * 2 + (path.to < 0 ? 1 : 0);
    const known = (seen[path.route.number] ??= new Set());
    if (known.has(lane)) continue;
    known.add(lane);
    const nodes = stepsOf(path).map((n) => names[n] ?? "");
    ways.set(`${nodes.join(" ")} ${to}`, { nodes, to });
  }
  return [...ways.values()];
}

export interface Look {
  /** The losses of edges; undefined: their delays are shown. */
  losses: Losses | undefined;
  /** Paths are those between sites. */
  sites: boolean;
  /** The highlighted path. */
  path?: PathEntry | undefined;
  /** Ids of the selected hosts. */
  ends: string[];
}

/** Makes the picture. */
export function pictureOf({ graph, groups }: Grouped, look: Look): Picture {
  const to = (id: string): string => groups.get(id)?.id ?? id;
  const strokes = strokesOf(graph, to, look);
  const lit = new Set<string>();
  const along = look.path ? stepsOf(look.path).map((n) => to(graph.all[n]?.id ?? "")) : [];
  along.forEach((node, i) => {
    lit.add(node);
    const before = along[i - 1];
    if (before) lit.add(strokeId(before, node));
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
    if (group) dots.set(group.id, { id: group.id, kind: "group", label: groupName(group, ends), title: `${group.hosts.length} hosts behind ${group.router}; click to expand`, weight: 2e5 });
    else if (node.kind === "site") dots.set(node.id, { id: node.id, kind: "group", label: `${node.site} (${node.agents})`, title: `site ${node.site}: ${node.agents === 1 ? "one host" : `${node.agents} hosts`}; click to show ${node.agents === 1 ? "it" : "them"}`, weight: 2e5 });
    else if (node.kind === "agent") dots.set(node.id, { id: node.id, kind: "agent", label: nodeName(node), title: nodeName(node), weight: 1e5 + (loads.get(node.id) ?? 0) });
    else dots.set(node.id, { id: node.id, kind: node.kind === "router" ? "router" : "unknown", label: nodeName(node), title: node.kind !== "router" ? "did not answer" : node.ioam && node.addresses.length === 0 ? `router ${node.ioam}, known by its IOAM identifier` : node.name ? `${node.name} (${node.addresses.join(", ")})` : nodeName(node), weight: loads.get(node.id) ?? 0 });
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
  const counter = new PairCounter(graph.pairs);
  return [...bundles].map(([id, bundle]) => strokeOf(id, bundle, look, counter.of([...bundle.there, ...bundle.back])));
}

function strokeOf(id: string, { from, to, there, back }: Bundle, { losses, sites }: Look, pairs: number): Stroke {
  const worst = (ways: Way[]) => ways.map((w) => figureOf(w, losses)).reduce((a, b) => ((b.value ?? -1) > (a.value ?? -1) ? b : a));
  const [out, home] = [worst(there), back.length > 0 ? worst(back) : undefined];
  const most = there.length + back.length > 2 ? "up to " : "";
  const value = Math.max(out.value ?? -1, home?.value ?? -1);
  const known = value >= 0 ? value : undefined;
  const users = sites ? (pairs === 1 ? "one path shown" : `${pairs} paths shown`) : pairs === 1 ? "one pair" : `${pairs} pairs`;
  return {
    id, from, to, both: back.length > 0, colour: colourOf(known, losses ? "loss" : "delay"), dashed: known === undefined,
    width: 1.8 + Math.min(4, 1.3 * Math.log10(Math.max(1, pairs))),
    label: most + (home ? `there ${out.text}\nback ${home.text}` : out.text),
    title: `${home ? `there: ${out.long}\nback: ${home.long}` : out.long}\nused by ${users}`,
  };
}
