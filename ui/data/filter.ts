// Filters by five-tuple: rows of a form, and the text that the command line has.

/** One filter as a form has it; what is empty fits everything. */
export interface FilterRow {
  proto: string;
  src: string;
  sport: string;
  dst: string;
  dport: string;
}

/** A filter that says nothing yet. */
export const emptyFilter = (): FilterRow => ({ proto: "", src: "", sport: "", dst: "", dport: "" });

const order = ["src", "dst", "proto", "sport", "dport"] as const;

/** The names of protocols that the server knows; others go by number. */
export const protocols = ["tcp", "udp", "icmp", "icmpv6", "sctp", "dccp", "udplite"];

/** The text of a filter, as on the command line. */
export function filterText(row: FilterRow): string {
  return order.map((name) => [name, row[name].trim()] as const).filter(([, v]) => v !== "").map(([n, v]) => `${n}=${v}`).join(" ");
}

/** The row of a text; undefined where the text says what a row cannot. */
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

/** A filter in words, such as "TCP to port 443". */
export function filterWords(text: string): string {
  const row = filterRow(text);
  if (!row) return text;
  const from = [row.src, row.sport && `port ${row.sport}`].filter(Boolean).join(" ");
  const to = [row.dst, row.dport && `port ${row.dport}`].filter(Boolean).join(" ");
  const what = row.proto ? (/^\d+$/.test(row.proto) ? `protocol ${row.proto}` : row.proto.toUpperCase()) : "any protocol";
  return [what, from && `from ${from}`, to && `to ${to}`].filter(Boolean).join(" ");
}
