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
  not_ip: "not IP", malformed: "malformed", no_match: "of no session", no_lease: "no lease: the far side was not heard", not_sampled: "not in the sample",
  multicast: "multicast", neighbour: "neighbour discovery", fragment: "fragments", existing_option: "an option was there already", extension: "extension headers",
  ip_options: "IP options", encoding: "their kind of packet carries no marks here", vlan: "VLAN tag", mtu: "no room below the MTU", gso: "segmented by the device",
  no_room: "no room in the packet", flows: "flow table full", probe: "fault of the probe",
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
