// The state of a pair and its figures as text.
import { ends } from "../../data/agents.ts";
import { duration, packetRate, rate, share } from "../../data/quantity.ts";
import type { Measure, PairTable } from "../../data/pair-table.ts";

/** live: current figures; stale: some seconds old; quiet: measured, no packets; none: not measured; self: not a pair. */
export type PairState = "live" | "stale" | "quiet" | "none" | "self";

/** Labels of states. */
const stateWords: Record<PairState, string> = {
  live: "measured", stale: "some seconds old", quiet: "no traffic", none: "not measured", self: "",
};

/** Label of a state. Where a limited token sees only some pairs of hosts, the others may be measured. */
export const stateWord = (state: PairState): string => (state === "none" && ends.value.length > 0 ? "not measured, or not visible" : stateWords[state]);

// Rows are delivered in batches, some time after their interval ends.
const staleMs = 4_000;
const quietMs = 12_000;

/** State of a pair by its age and its interval, both in ms; interval undefined: no session measures it. */
export function stateOf(age: number, interval: number | undefined): PairState {
  const late = 2 * Math.max(0, (interval ?? 1000) - 1000);
  if (age <= staleMs + late) return "live";
  if (age <= quietMs + late) return "stale";
  return interval === undefined ? "none" : "quiet";
}

/** The figure of a measure as text. */
export const figureText = (measure: Measure, value: number): string => (measure === "loss" ? share(value) : duration(value));

/** Labels of metrics: short, and in a sentence. */
export const measureWords: Record<Measure, { short: string; long: string }> = {
  delay: { short: "Median delay", long: "median one-way delay" },
  p99: { short: "p99 delay", long: "99th percentile of one-way delay" },
  loss: { short: "Loss", long: "packet loss, last 10 s" },
};

/** Figures of a pair as texts with their names. */
export function pairFigures(table: PairTable, pair: number): { name: string; text: string }[] {
  return [
    { name: "median delay", text: duration(table.p50[pair]) },
    { name: "p99 delay", text: duration(table.p99[pair]) },
    { name: "clocks", text: Number.isNaN(table.clockError[pair] ?? NaN) ? "unknown" : `± ${duration(table.clockError[pair])}` },
    { name: "loss, 10 s", text: share(table.loss(pair)) },
    { name: "packets", text: packetRate(table.packetRate(pair)) },
    { name: "rate", text: rate(table.rate[pair]) },
  ];
}

/** A pair with an extreme value. */
interface Standing {
  pair: number;
  value: number;
}

/** The pairs with the largest values of a metric, largest first, without zeros. */
export function worst(table: PairTable, measure: Measure, wanted: (pair: number) => boolean, most: number): Standing[] {
  const top: Standing[] = [];
  for (let pair = 0; pair < table.size; pair++) {
    const value = table.figure(pair, measure);
    if (!(value > 0) || (top.length === most && value <= (top[most - 1]?.value ?? 0)) || !wanted(pair)) continue;
    let at = top.length;
    while (at > 0 && value > (top[at - 1]?.value ?? 0)) at--;
    top.splice(at, 0, { pair, value });
    if (top.length > most) top.pop();
  }
  return top;
}
