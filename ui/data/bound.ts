// How much an edge can lose at most. Nobody measures the loss of an edge itself. But
// what an edge loses, every path across it loses too: so the least loss of the pairs
// whose packets cross it is a bound.
import type { Path } from "../gen/topology_pb.ts";
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
  /** The pair has other traced paths that avoid the edge: its packets may have taken those. */
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

/** The bound of a way; undefined where no measured pair crosses it. A pair all of whose paths cross it goes first. */
export function boundOf(way: Way, losses: ReadonlyMap<string, PairLoss>, counts: ReadonlyMap<string, number>): Bound | undefined {
  let best: Bound | undefined;
  for (const [pair, crossing] of pathCounts(way.paths)) {
    const seen = losses.get(pair);
    if (!seen || seen.expected < fewest) continue;
    const bound = { share: seen.lost / seen.expected, pair, lost: seen.lost, expected: seen.expected, perhaps: crossing < (counts.get(pair) ?? crossing) };
    if (!best || (best.perhaps && !bound.perhaps) || (best.perhaps === bound.perhaps && tighter(bound, best))) best = bound;
  }
  return best;
}

const tighter = (a: Bound, b: Bound): boolean => a.share < b.share || (a.share === b.share && a.expected > b.expected);
