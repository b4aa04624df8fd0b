// Five-tuple filters as form rows and as text.

/** A filter in the form; empty fields match everything. */
export interface FilterRow {
  proto: string;
  src: string;
  sport: string;
  dst: string;
  dport: string;
}

/** A filter without conditions. */
export const emptyFilter = (): FilterRow => ({ proto: "", src: "", sport: "", dst: "", dport: "" });

const order = ["src", "dst", "proto", "sport", "dport"] as const;

/** Suggested protocol names; numbers are allowed too. */
export const protocols = ["tcp", "udp", "icmp", "icmpv6", "sctp", "dccp", "udplite"];

/** The text of a filter, as on the command line. */
export function filterText(row: FilterRow): string {
  return order.map((name) => [name, row[name].trim()] as const).filter(([, v]) => v !== "").map(([n, v]) => `${n}=${v}`).join(" ");
}

/** The row of a text; undefined if a row cannot represent it. */
export function filterRow(text: string): FilterRow | undefined {
  const row = emptyFilter();
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const cut = word.indexOf("=");
    const name = order.find((n) => n === word.slice(0, cut));
    if (!name || row[name] !== "") return undefined;
    row[name] = word.slice(cut + 1);
  }
  return row;
}

/** A filter as readable text, such as "TCP to port 443". */
export function filterWords(text: string): string {
  const row = filterRow(text);
  if (!row) return text;
  const from = [row.src, row.sport && `port ${row.sport}`].filter(Boolean).join(" ");
  const to = [row.dst, row.dport && `port ${row.dport}`].filter(Boolean).join(" ");
  const what = row.proto ? (/^\d+$/.test(row.proto) ? `protocol ${row.proto}` : row.proto.toUpperCase()) : "any protocol";
  return [what, from && `from ${from}`, to && `to ${to}`].filter(Boolean).join(" ");
}
