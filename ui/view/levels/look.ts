// What the view of service levels asks for, kept in the address.
import { monthAt, monthRange, percentOf, quantiles, shareOf, type LevelQuestion } from "../../data/levels.ts";
import { parseSpan, spanText } from "../../data/length.ts";
import type { Route } from "../../data/route.ts";

const usualOutage = 0.2;
const usualQuantile = 0.99;

/** Reads the question in the address. */
export function questionOf({ query }: Route): LevelQuestion {
  const share = (name: string): number => shareOf(query.get(name) ?? "") ?? 0;
  const month = query.get("month") ?? "";
  const delay = parseSpan(query.get("delay") ?? "") ?? 0;
  const quantile = Number(query.get("quantile"));
  return {
    month: monthRange(month) ? month : monthAt(Date.now()), scope: selectorsOf(query.get("scope") ?? ""), session: query.get("session") ?? "",
    availability: share("availability"), loss: share("loss"), delayNs: Math.max(0, delay),
    quantile: quantiles.find((q) => q === quantile) ?? usualQuantile, outage: query.has("outage") ? share("outage") : usualOutage,
  };
}

/** Selectors of a text: labels have no commas. */
export const selectorsOf = (text: string): string[] => text.split(",").map((s) => s.trim()).filter(Boolean);

/** A question as query of an address; what is usual is left out. */
export function queryOf(q: LevelQuestion): Record<string, string | undefined> {
  return {
    month: q.month === monthAt(Date.now()) ? undefined : q.month, scope: q.scope.join(",") || undefined, session: q.session || undefined,
    availability: percentOf(q.availability) || undefined, loss: percentOf(q.loss) || undefined, delay: q.delayNs > 0 ? spanText(q.delayNs) : undefined,
    quantile: q.quantile === usualQuantile ? undefined : String(q.quantile), outage: q.outage === usualOutage ? undefined : percentOf(q.outage) || "0",
  };
}
