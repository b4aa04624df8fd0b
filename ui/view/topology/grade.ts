// Colours of edges: five classes of delay and of loss, the same in every network.
import { boundOf, type Bound, type PairLoss } from "../../data/bound.ts";
import { duration, share } from "../../data/quantity.ts";
import type { Way } from "../../data/topology.ts";

/** A class: what it holds in words, and the end that is not in it. */
export interface Grade {
  text: string;
  below: number;
  colour: string;
}

const colours = ["--heat-1", "--heat-2", "--heat-3", "--heat-4", "--heat-5"];
const grades = (rows: [string, number][]): Grade[] => rows.map(([text, below], i) => ({ text, below, colour: colours[i] ?? "--heat-5" }));

/** Classes of a difference of round-trip times, ns. */
export const delayGrades = grades([["below 0.1 ms", 1e5], ["0.1 to 1 ms", 1e6], ["1 to 10 ms", 1e7], ["10 to 100 ms", 1e8], ["100 ms and more", Infinity]]);

/** Classes of a share of lost packets. */
export const lossGrades = grades([["none lost", Number.MIN_VALUE], ["up to 0.1 %", 1e-3], ["0.1 to 1 %", 1e-2], ["1 to 5 %", 5e-2], ["5 % and more", Infinity]]);

/** What is known of one way. */
export interface Figure {
  /** ns or a share; undefined: not known. */
  value?: number;
  text: string;
  /** The text, and where it comes from. */
  long: string;
}

/** Where losses of edges come from. */
export interface Losses {
  pairs: ReadonlyMap<string, PairLoss>;
  counts: ReadonlyMap<string, number>;
  /** When the packets of pairs began to be counted, ms since 1970. */
  since: number;
}

/** The figure of a way. */
export function figureOf(way: Way, by: "delay" | "loss", losses: Losses): Figure {
  if (by === "loss") return lossFigure(boundOf(way, losses.pairs, losses.counts, losses.since));
  if (way.rtt === undefined) return { text: "not measured", long: "not measured: one of its ends did not answer" };
  if (way.negative) return { value: 0, text: "0 ms", long: "0 ms; the far end answered sooner than the near one, which is busy or has a shorter way back" };
  return { value: way.rtt, text: duration(way.rtt), long: `${duration(way.rtt)} more round-trip time at its far end` };
}

function lossFigure(bound: Bound | undefined): Figure {
  if (!bound) return { text: "not measured", long: "not measured: no pair with enough packets crosses it" };
  const text = `≤ ${share(bound.share)}`;
  const [a, b] = bound.pair.split(">");
  const perhaps = bound.perhaps ? ", if all its packets went this way" : "";
  return { value: bound.share, text, long: `at most ${share(bound.share)}: ${a} to ${b} lost ${bound.lost} of ${bound.expected} in the last minute${perhaps}` };
}

/** The colour of a value; undefined: neutral. */
export function colourOf(value: number | undefined, by: "delay" | "loss"): string {
  if (value === undefined) return "--line-strong";
  return (by === "loss" ? lossGrades : delayGrades).find((g) => value < g.below)?.colour ?? "--heat-5";
}
