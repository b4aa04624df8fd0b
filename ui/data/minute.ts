// What each pair of hosts measured in the last minute.
import { signal } from "@preact/signals";
import type { WatchPairsResponse } from "../gen/flow_pb.ts";
import type { PairLoss } from "./bound.ts";
import { flowClient } from "./client.ts";
import { follow } from "./follow.ts";
import { pairName } from "./topology.ts";

/** A pair's figures. */
export interface PairFigures extends PairLoss {
  /** Median one-way delay of the newest second with packets, ns. */
  median?: number;
}

/** Figures by pair, renewed every two seconds; undefined before the first message. */
export const minute = signal<ReadonlyMap<string, PairFigures> | undefined>(undefined);

/** Why there are no live figures. */
export const minuteFault = signal<string | undefined>(undefined);

const length = 60_000;
const pause = 2000;

interface Second {
  start: number;
  figures: { pair: string; expected: number; lost: number; median: number }[];
}

/** Adds up the seconds of the last minute. */
export class Minute {
  private agents: string[] = [];
  private seconds = new Map<number, Second>();

  /** Takes a message; one of the same second replaces what was there. */
  take(m: WatchPairsResponse): void {
    this.agents.push(...m.agents);
    const figures = m.sources.map((source, i) => ({
      pair: pairName(this.agents[source] ?? "", this.agents[m.destinations[i] ?? -1] ?? ""),
      expected: m.expected[i] ?? 0, lost: m.lost[i] ?? 0, median: m.p50Ns[i] ?? NaN,
    }));
    const start = Number(m.startMs);
    this.seconds.set(start, { start, figures });
    for (const old of this.seconds.keys()) if (old <= start - length) this.seconds.delete(old);
  }

  sums(): Map<string, PairFigures> {
    const sums = new Map<string, PairFigures>();
    for (const second of [...this.seconds.values()].sort((a, b) => a.start - b.start)) {
      for (const f of second.figures) {
        const sum = sums.get(f.pair) ?? { expected: 0, lost: 0 };
        sum.expected += f.expected;
        sum.lost += f.lost;
        if (!Number.isNaN(f.median)) sum.median = f.median;
        sums.set(f.pair, sum);
      }
    }
    return sums;
  }
}

/** Follows the pairs until the returned function is called. */
export function followMinute(session: string): () => void {
  let sums = new Minute();
  let shown = 0;
  const stop = follow<WatchPairsResponse>({
    open: (abort) => flowClient.watchPairs({ session, history: 60 }, { signal: abort }),
    begin: () => (sums = new Minute()),
    message: (m) => {
      sums.take(m);
      minuteFault.value = undefined;
      if (Date.now() - shown < pause) return;
      shown = Date.now();
      minute.value = sums.sums();
    },
    broken: (why) => (minuteFault.value = why),
  });
  return () => {
    stop();
    minute.value = undefined;
    minuteFault.value = undefined;
  };
}
