// Upper bound of the loss of an edge, which is not measured directly.
// Packets lost on an edge are lost for every pair that uses it, so the lowest loss of
// these pairs is a bound.
import { pairName, type PathEntry, type Way } from "./topology.ts";

/** Packets of a pair in a period. */
export interface PairLoss {
  expected: number;
  lost: number;
}

/** The losses of pairs, from which the losses of edges are derived, by number of pair. */
export interface Losses {
  pairs: readonly (PairLoss | undefined)[];
  /** Number of paths of each pair. */
  counts: Uint32Array;
  /** Start of the counts, ms since 1970. */
  since: number;
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

/** The losses of the pairs of these paths. */
export function lossesOf(paths: readonly PathEntry[], pairs: number, live: ReadonlyMap<string, PairLoss>, since: number): Losses {
  const losses = { pairs: new Array<PairLoss | undefined>(pairs), counts: new Uint32Array(pairs), since };
  for (const { pair, source, destination } of paths) {
    const before = losses.counts[pair] ?? 0;
    losses.counts[pair] = before + 1;
    if (before === 0 && destination) losses.pairs[pair] = live.get(pairName(source, destination));
  }
  return losses;
}

/**
 * The bound of a way; undefined if no measured pair uses it. A pair that certainly
 * used it all the time is preferred.
 */
export function boundOf({ paths }: Way, losses: Losses): Bound | undefined {
  let best = -1;
  let least = { share: Infinity, expected: 0, perhaps: true };
  for (let i = 0; i < paths.length;) {
    const first = i;
    const { pair } = paths[i] as PathEntry;
    let crossing = 0;
    let changed = 0;
    for (; paths[i]?.pair === pair; i++) {
      crossing++;
      changed = Math.max(changed, paths[i]?.changed ?? 0);
    }
    const seen = losses.pairs[pair];
    if (!seen || seen.expected < leastExpected) continue;
    const perhaps = crossing < (losses.counts[pair] ?? crossing) || changed > losses.since;
    const share = seen.lost / seen.expected;
    if (best < 0 || (least.perhaps && !perhaps) || (least.perhaps === perhaps && (share < least.share || (share === least.share && seen.expected > least.expected)))) {
      best = first;
      least = { share, expected: seen.expected, perhaps };
    }
  }
  const path = paths[best];
  const lost = path && losses.pairs[path.pair]?.lost;
  return path && lost !== undefined ? { ...least, lost, pair: pairName(path.source, path.destination) } : undefined;
}

/** Counts the pairs that use any of these ways; one for all edges of a graph. */
export class PairCounter {
  private readonly stamps: Uint32Array;
  private stamp = 0;

  constructor(pairs: number) {
    this.stamps = new Uint32Array(pairs);
  }

  of(ways: readonly Way[]): number {
    const stamp = ++this.stamp;
    let found = 0;
    for (const { paths } of ways) {
      for (const { pair, destination } of paths) {
        if (this.stamps[pair] === stamp || !destination) continue;
        this.stamps[pair] = stamp;
        found++;
      }
    }
    return found;
  }
}
