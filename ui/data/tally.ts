// The counters of a task as accounts: a total and the parts that add up to it.
import type { Task } from "../gen/agent_pb.ts";

/** One line of an account: a total and its parts, which add up to it. */
export interface Account {
  total: { label: string; n: number };
  parts: { label: string; n: number }[];
  /** Total less parts; not 0 while packets pass, since counters are read one after the other. */
  rest: number;
}

const words = (name: string): string => name.replace(/^device_/, "interface_").replaceAll("_", " ");

/** Why a source left packets unmarked, by counter. */
const reasons: Record<string, string> = {
  not_ip: "not IP", malformed: "malformed", no_match: "in no session", no_lease: "without a lease", not_sampled: "not in the sample",
  multicast: "multicast", neighbour: "neighbour discovery", fragment: "fragments", existing_option: "with an option already", extension: "with extension headers",
  ip_options: "with IPv4 options", encoding: "to which no chosen encoding applies", vlan: "with a VLAN tag", mtu: "too long for the MTU", gso: "GSO buffers that could not be segmented once marked",
  no_room: "no room in the kernel buffer", flows: "flow table full", probe: "own probes",
  handshake: "TCP handshakes without room for a mark", timeout: "of TCP connections on whose path marks may be dropped", tcp_options: "no room among the TCP options",
  tcp_callbacks: "of TCP connections whose callbacks another program cleared",
};

function account(total: string, n: number, parts: { label: string; n: number }[]): Account {
  return { total: { label: total, n }, parts, rest: n - parts.reduce((sum, p) => sum + p.n, 0) };
}

/** The accounts of a task, and the other counters that are not 0. */
export function accountsOf(task: Task): { accounts: Account[]; others: { label: string; n: number }[] } {
  const left = new Map(Object.entries(task.counters).map(([k, v]) => [k, Number(v)]));
  const take = (name: string): number => {
    const n = left.get(name) ?? 0;
    left.delete(name);
    return n;
  };
  const accounts: Account[] = [];
  if (task.role === "source" && left.has("seen")) {
    const seen = take("seen");
    const counted = take("counted");
    const parts = [{ label: "marked", n: take("marked") }, ...(counted > 0 ? [{ label: "counted without a mark", n: counted }] : [])];
    const skipped = [...left.keys()].filter((k) => k.startsWith("skipped_")).map((key) => ({ label: `unmarked: ${reasons[key.slice(8)] ?? words(key.slice(8))}`, n: take(key) }));
    accounts.push(account("packets seen", seen, [...parts, ...skipped.filter((s) => s.n > 0).sort((a, b) => b.n - a.n)]));
  }
  if (task.role === "destination" && left.has("expected")) {
    const expected = take("expected");
    const lost = take("lost");
    const [packets, duplicated] = [take("packets"), take("duplicated")];
    accounts.push(account("packets expected", expected, [{ label: "received", n: expected - lost }, { label: "lost", n: lost }]));
    const unchecked = take("unchecked");
    const parts = unchecked > 0 ? [{ label: "checked for duplicates", n: packets - unchecked }, { label: "not checked, as marks are sparse", n: unchecked }] :
      [{ label: "once", n: packets - duplicated }, { label: "duplicates", n: duplicated }];
    accounts.push(account("packets received", packets, parts));
  }
  if (task.role === "router" && left.has("seen")) {
    const seen = take("seen");
    const parts = ["forwarded", "dropped", "local", "merged", "lost", "in_flight"].map((name) => ({ label: words(name), n: take(name) }));
    accounts.push(account("packets seen", seen, parts.filter((p, i) => i === 0 || p.n > 0)));
  }
  return { accounts, others: [...left].filter(([, n]) => n !== 0).map(([k, n]) => ({ label: words(k), n })).sort((a, b) => a.label.localeCompare(b.label)) };
}
