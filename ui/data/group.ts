// Groups of hosts behind one router, used where there are too many to show each.
import type { Path } from "../gen/topology_pb.ts";

/** Hosts whose paths share the first router. */
export interface Group {
  id: string;
  /** Id of the router. */
  router: string;
  hosts: string[];
}

/** Minimum number of hosts of a group. */
const groupLeast = 4;

/** The groups by id of host node; groups in `open` are expanded. */
export function groupsOf(paths: Path[], open: ReadonlySet<string>): Map<string, Group> {
  const votes = new Map<string, Map<string, number>>();
  for (const { nodes } of paths) {
    const [host, router] = nodes;
    if (!host || !router?.startsWith("router:")) continue;
    let of = votes.get(host);
    if (!of) votes.set(host, (of = new Map()));
    of.set(router, (of.get(router) ?? 0) + 1);
  }
  const behind = new Map<string, string[]>();
  for (const [host, of] of [...votes].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const [first] = [...of].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
    if (first) behind.set(first[0], [...(behind.get(first[0]) ?? []), host]);
  }
  const groups = new Map<string, Group>();
  for (const [router, hosts] of behind) {
    const id = `group:${router}`;
    if (hosts.length >= groupLeast && !open.has(id)) for (const host of hosts) groups.set(host, { id, router, hosts });
  }
  return groups;
}
