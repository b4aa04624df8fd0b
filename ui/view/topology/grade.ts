// Colours of links: five fixed classes of delay and of loss.
import { boundOf, type Bound, type Losses } from "../../data/bound.ts";
import { oneWaySentence } from "../../data/one-way.ts";
import { duration, share } from "../../data/quantity.ts";
import type { Way } from "../../data/topology.ts";

/** A class: its label and its exclusive upper end. */
interface Grade {
  text: string;
  below: number;
  colour: string;
}

const colours = ["--heat-1", "--heat-2", "--heat-3", "--heat-4", "--heat-5"];
const grades = (rows: [string, number][]): Grade[] => rows.map(([text, below], i) => ({ text, below, colour: colours[i] ?? "--heat-5" }));

/** Classes of one-way delays and of round-trip time differences, ns. */
export const delayGrades = grades([["below 0.1 ms", 1e5], ["0.1 to 1 ms", 1e6], ["1 to 10 ms", 1e7], ["10 to 100 ms", 1e8], ["100 ms and more", Infinity]]);

/** Classes of loss ratios. */
export const lossGrades = grades([["no loss", Number.MIN_VALUE], ["up to 0.1 %", 1e-3], ["0.1 to 1 %", 1e-2], ["1 to 5 %", 5e-2], ["5 % and more", Infinity]]);

/** The figure of a way. */
export interface Figure {
  /** ns or a ratio; undefined: unknown. */
  value?: number;
  text: string;
  /** The text with its explanation. */
  long: string;
}

/** The figure of a way: of loss, or of delay without losses. */
export function figureOf(way: Way, losses: Losses | undefined): Figure {
  if (losses) return lossFigure(boundOf(way, losses));
  if (way.oneWay) return { value: Math.max(0, Number(way.oneWay.p50Ns)), text: `${duration(Number(way.oneWay.p50Ns))} one way`, long: oneWaySentence(way.oneWay) };
  if (way.rtt === undefined) return { text: "not measured", long: "not measured: one end did not answer" };
  if (way.negative) return { value: 0, text: "0 ms", long: "0 ms; the far end answered sooner than the near end, whose replies are delayed or take a longer way back" };
  return { value: way.rtt, text: duration(way.rtt), long: `${duration(way.rtt)}: round-trip time to the far end minus that to the near end` };
}

function lossFigure(bound: Bound | undefined): Figure {
  if (!bound) return { text: "not measured", long: "not measured: no pair with enough packets uses this link" };
  const text = `≤ ${share(bound.share)}`;
  const [a, b] = bound.pair.split(">");
  const perhaps = bound.perhaps ? ", if all of its packets took this path" : "";
  return { value: bound.share, text, long: `at most ${share(bound.share)}: ${a} to ${b} lost ${bound.lost} of ${bound.expected} in the last minute${perhaps}` };
}

/** The colour of a value; neutral if undefined. */
export function colourOf(value: number | undefined, by: "delay" | "loss"): string {
  if (value === undefined) return "--line-strong";
  return (by === "loss" ? lossGrades : delayGrades).find((g) => value < g.below)?.colour ?? "--heat-5";
}
