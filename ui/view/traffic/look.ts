// What the view of traffic shows, kept in the address.
import type { Route } from "../../data/route.ts";
import { lengthOf, spanOf } from "../../data/span.ts";
import { groupings, type Grouping, type TrafficQuestion } from "../../data/traffic.ts";

export const groupingWords: Record<Grouping, { short: string; one: string }> = {
  pair: { short: "Hosts", one: "host" }, label: { short: "Label", one: "value of the label" }, prefix: { short: "Prefixes", one: "prefix" },
  host: { short: "Addresses", one: "address" }, "host-port": { short: "Address and port", one: "address" }, flow: { short: "Flows", one: "address" },
};

/** Default lengths of prefixes. */
export const prefixes = { prefix4: 24, prefix6: 48 };

const usualRange = "1h";

/** Reads what is shown from the address. */
export function lookOf({ query }: Route): TrafficQuestion {
  const by = groupings.find((g) => g === query.get("by")) ?? "pair";
  const length = (name: string, usual: number, most: number): number => {
    const n = Number(query.get(name) ?? usual);
    return Number.isInteger(n) && n >= 1 && n <= most ? n : usual;
  };
  const ranged = query.has("range") || query.has("from");
  return {
    by, label: query.get("label") ?? "", prefix4: length("p4", prefixes.prefix4, 32), prefix6: length("p6", prefixes.prefix6, 128),
    protocols: query.get("protocols") === "1", amount: query.get("amount") === "packets" ? "packets" : "bytes", session: query.get("session") ?? "",
    span: ranged ? spanOf(query) : { live: true, length: lengthOf(usualRange) ?? 3600e3 },
  };
}
