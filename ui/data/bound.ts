// How much an edge can lose at most. Nobody measures the loss of an edge itself. But
// what an edge loses, every path across it loses too: so the least loss of the pairs
// whose packets cross it is a bound.
import type { Path } from "../gen/topology_pb.ts";
import { millis } from "./time.ts";
import { pairName, type Way } from "./topology.ts";

/** Packets of a pair in some length of time. */
export interface PairLoss {
  expected: number;
  lost: number;
}

/** Fewer expected packets than these say nothing of loss. */
export const fewest = 50;

/** The most that an edge can have lost. */
export interface Bound {
  /** 0 to 1. */
  share: number;
  /** The pair that gives it. */
  pair: string;
  lost: number;
  expected: number;
  /** Not all of the pair's packets need have crossed: it has other traced paths too, or its route changed meanwhile. */
  perhaps: boolean;
}

/** Reports for each pair how many paths it has. */
export function pathCounts(paths: Path[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const p of paths) {
    const pair = pairName(p.source, p.destination);
    counts.set(pair, (counts.get(pair) ?? 0) + 1);
  }
  return counts;
}

interface Crossing {
  counts: Map<string, number>;
  changed: Map<string, number>;
}

// Ways live as long as an answer of the server, figures come every other second.
const crossings = new WeakMap<Way, Crossing>();

function crossingOf(way: Way): Crossing {
  let crossing = crossings.get(way);
  if (!crossing) {
    crossing = { counts: pathCounts(way.paths.filter((p) => p.destination)), changed: new Map() };
    for (const p of way.paths) {
      const pair = pairName(p.source, p.destination);
      crossing.changed.set(pair, Math.max(crossing.changed.get(pair) ?? 0, millis(p.changed) ?? 0));
    }
    crossings.set(way, crossing);
  }
  return crossing;
}

/** Pairs whose path crosses a way, each once. */
export const pairsOf = (way: Way): Iterable<string> => crossingOf(way).counts.keys();

/**
 * The bound of a way; undefined where no measured pair crosses it. A pair that surely
 * crossed it all the time goes first: since is when the packets began to be counted.
 */
export function boundOf(way: Way, losses: ReadonlyMap<string, PairLoss>, counts: ReadonlyMap<string, number>, since = Infinity): Bound | undefined {
  let best: Bound | undefined;
  const { counts: here, changed } = crossingOf(way);
  for (const [pair, crossing] of here) {
    const seen = losses.get(pair);
    if (!seen || seen.expected < fewest) continue;
    const bound = { share: seen.lost / seen.expected, pair, lost: seen.lost, expected: seen.expected, perhaps: crossing < (counts.get(pair) ?? crossing) || (changed.get(pair) ?? 0) > since };
    if (!best || (best.perhaps && !bound.perhaps) || (best.perhaps === bound.perhaps && tighter(bound, best))) best = bound;
  }
  return best;
}

const tighter = (a: Bound, b: Bound): boolean => a.share < b.share || (a.share === b.share && a.expected > b.expected);
