// Figures of each pair over the last minute, updated every other second.
import { effect, signal } from "@preact/signals";
import type { PairLoss } from "./bound.ts";
import type { PairTable } from "./pair-table.ts";
import { pairsFault, pairsReceived, pairsVersion, pairTable, watchPairs } from "./pairs.ts";
import { pairName } from "./topology.ts";

/** Figures of a pair. */
export interface PairFigures extends PairLoss {
  /** Median one-way delay of the latest second with packets, ns; NaN: none. */
  median: number;
}

/** Figures by pair; undefined before the first message. */
export const minute = signal<ReadonlyMap<string, PairFigures> | undefined>(undefined);

/** Why there are no live figures. */
export const minuteFault = pairsFault;

const refreshMs = 2000;

/** The figures of all pairs in the table. */
export function figuresOf(table: PairTable): Map<string, PairFigures> {
  const { expected, lost } = table.minute();
  const figures = new Map<string, PairFigures>();
  for (let pair = 0; pair < table.size; pair++) {
    const name = pairName(table.agents[table.source[pair] ?? -1] ?? "", table.agents[table.destination[pair] ?? -1] ?? "");
    figures.set(name, { expected: expected[pair] ?? 0, lost: lost[pair] ?? 0, median: table.p50[pair] ?? NaN });
  }
  return figures;
}

/** Follows the pairs of a session, or of all, until the returned function is called. */
export function followMinute(session: string): () => void {
  minute.value = undefined;
  const stop = watchPairs(session);
  let shown = -Infinity;
  const forget = effect(() => {
    void pairsVersion.value;
    if (!pairsReceived.value || performance.now() - shown < refreshMs) return;
    shown = performance.now();
    minute.value = figuresOf(pairTable);
  });
  return () => {
    forget();
    stop();
  };
}
