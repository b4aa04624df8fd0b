// Groups of hosts behind one router, used where there are too many to show each.
import { nodeName, type PathEntry } from "./topology.ts";
import type { Node } from "../gen/topology_pb.ts";

/** Hosts whose paths share the first router. */
export interface Group {
  id: string;
  /** Name of the router. */
  router: string;
  /** Ids of nodes. */
  hosts: string[];
}

/** Minimum number of hosts of a group. */
const groupLeast = 4;

/** The nodes that forward: routers, and those with an agent. */
export function forwarding(paths: readonly PathEntry[]): Set<number> {
  const found = new Set<number>();
  const seen: boolean[] = [];
  for (const { route } of paths) {
    if (seen[route.number]) continue;
    seen[route.number] = true;
    for (const node of route.nodes) found.add(node);
  }
  return found;
}

/** The groups by id of host node; groups in `open` are expanded. */
export function groupsOf(nodes: readonly Node[], paths: readonly PathEntry[], open: ReadonlySet<string>, forwards = forwarding(paths)): Map<string, Group> {
  const votes = new Map<number, Map<number, number>>();
  let of: Map<number, number> | undefined;
  let last = -1;
  for (const { from, route } of paths) {
    const router = route.nodes[0];
    if (router === undefined || nodes[router]?.kind === "unknown" || forwards.has(from) || nodes[from]?.kind !== "agent") continue;
    if (from !== last) of = votes.get(from); // paths are by source
    last = from;
    if (!of) votes.set(from, (of = new Map()));
    of.set(router, (of.get(router) ?? 0) + 1);
  }
  const id = (node: number): string => nodes[node]?.id ?? "";
  const behind = new Map<number, string[]>();
  for (const [host, of] of [...votes].sort(([a], [b]) => (id(a) < id(b) ? -1 : 1))) {
    const [first] = [...of].sort(([a, x], [b, y]) => y - x || (id(a) < id(b) ? -1 : 1));
    if (!first) continue;
    const others = behind.get(first[0]);
    if (others) others.push(id(host));
    else behind.set(first[0], [id(host)]);
  }
  const groups = new Map<string, Group>();
  for (const [router, hosts] of behind) {
    const node = nodes[router];
    const group = { id: `group:${id(router)}`, router: node ? nodeName(node) : "", hosts };
    if (hosts.length >= groupLeast && !open.has(group.id)) for (const host of hosts) groups.set(host, group);
  }
  return groups;
}
