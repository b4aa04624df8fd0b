// Upper bound of the loss of an edge, which is not measured directly.
// Packets lost on an edge are lost for every pair that uses it, so the lowest loss of
// these pairs is a bound.
import type { Path } from "../gen/topology_pb.ts";
import { millis } from "./time.ts";
import { pairName, type Way } from "./topology.ts";

/** Packets of a pair in a period. */
export interface PairLoss {
  expected: number;
  lost: number;
}

/** Minimum of expected packets for a loss ratio. */
export const leastExpected = 50;

/** An upper bound of loss. */
export interface Bound {
  /** 0 to 1. */
  share: number;
  /** The pair that determines it. */
  pair: string;
  lost: number;
  expected: number;
  /** Not all packets of the pair may have used the edge: it has other paths, or its route changed. */
  perhaps: boolean;
}

/** Number of paths of each pair. */
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

// Ways are kept per answer of the server; figures change every other second.
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

/** Pairs whose path uses a way. */
export const pairsOf = (way: Way): Iterable<string> => crossingOf(way).counts.keys();

/**
 * The bound of a way; undefined if no measured pair uses it. A pair that certainly
 * used it all the time is preferred; since is the start of the counts.
 */
export function boundOf(way: Way, losses: ReadonlyMap<string, PairLoss>, counts: ReadonlyMap<string, number>, since = Infinity): Bound | undefined {
  let best: Bound | undefined;
  const { counts: here, changed } = crossingOf(way);
  for (const [pair, crossing] of here) {
    const seen = losses.get(pair);
    if (!seen || seen.expected < leastExpected) continue;
    const bound = { share: seen.lost / seen.expected, pair, lost: seen.lost, expected: seen.expected, perhaps: crossing < (counts.get(pair) ?? crossing) || (changed.get(pair) ?? 0) > since };
    if (!best || (best.perhaps && !bound.perhaps) || (best.perhaps === bound.perhaps && tighter(bound, best))) best = bound;
  }
  return best;
}

const tighter = (a: Bound, b: Bound): boolean => a.share < b.share || (a.share === b.share && a.expected > b.expected);
