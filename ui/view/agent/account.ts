// The accounts of a source: every packet that left was marked, or left alone for a reason.

/** What became of the packets that a source saw. */
export interface Account {
  seen: number;
  marked: number;
  /** Why packets were left alone, those with most first. */
  skipped: { reason: string; packets: number }[];
  /** Packets that neither was said of; 0: the account closes. */
  open: number;
}

const reasons: Record<string, string> = {
  not_ip: "not IP", malformed: "malformed", no_match: "of no session", no_lease: "without a lease", not_sampled: "not in the sample",
  multicast: "multicast", neighbour: "neighbour discovery", fragment: "fragments", existing_option: "an option was there already", extension: "with extension headers",
  ip_options: "with IPv4 options", encoding: "of a family that carries no marks here", vlan: "with a VLAN tag", mtu: "too long for the MTU", gso: "large buffers that cannot be segmented once marked",
  no_room: "the kernel made no room", flows: "no room in the flow table", probe: "probes of our own",
};

/** Adds up the counters of a source; undefined where they have no such account. */
export function accountOf(counters: Record<string, bigint>): Account | undefined {
  const { seen, marked } = counters;
  if (seen === undefined || marked === undefined) return undefined;
  const skipped = Object.entries(counters)
    .filter(([name, n]) => name.startsWith("skipped_") && n > 0n)
    .map(([name, n]) => ({ reason: reasons[name.slice(8)] ?? name.slice(8).replaceAll("_", " "), packets: Number(n) }))
    .sort((a, b) => b.packets - a.packets);
  const open = Number(seen) - Number(marked) - skipped.reduce((sum, s) => sum + s.packets, 0);
  return { seen: Number(seen), marked: Number(marked), skipped, open };
}
