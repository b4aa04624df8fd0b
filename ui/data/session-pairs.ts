// Live figures of a session's pairs.
import { signal, type ReadonlySignal } from "@preact/signals";
import type { WatchPairsResponse } from "../gen/flow_pb.ts";
import { flowClient } from "./client.ts";
import { follow } from "./follow.ts";

/** Figures of a pair in one second. */
export interface Figures {
  /** Start of the second, ms since 1970. */
  at: number;
  packets: number;
  expected: number;
  lost: number;
  p50: number;
  p99: number;
  rate: number;
}

interface SessionPairs {
  /** The latest figures by pairKey. */
  readonly figures: ReadonlySignal<ReadonlyMap<string, Figures>>;
  /** Why the stream is interrupted. */
  readonly fault: ReadonlySignal<string | undefined>;
  close(): void;
}

/** The key of a pair. */
export const pairKey = (source: string, destination: string): string => `${source} ${destination}`;

/** Follows the figures of a session's pairs until closed. */
export function watchSession(session: string): SessionPairs {
  const figures = signal<ReadonlyMap<string, Figures>>(new Map());
  const fault = signal<string | undefined>(undefined);
  let agents: string[] = [];
  const message = (m: WatchPairsResponse): void => {
    fault.value = undefined;
    agents.push(...m.agents);
    if (m.sources.length === 0) return;
    const next = new Map(figures.peek());
    m.sources.forEach((source, i) => {
      const [from, to] = [agents[source], agents[m.destinations[i] ?? -1]];
      if (from === undefined || to === undefined) return;
      next.set(pairKey(from, to), {
        at: Number(m.startMs), packets: m.packets[i] ?? 0, expected: m.expected[i] ?? 0, lost: m.lost[i] ?? 0,
        p50: m.p50Ns[i] ?? Number.NaN, p99: m.p99Ns[i] ?? Number.NaN, rate: m.rate[i] ?? Number.NaN,
      });
    });
    figures.value = next;
  };
  const close = follow<WatchPairsResponse>({
    open: (abort) => flowClient.watchPairs({ session, history: 5 }, { signal: abort }),
    begin: () => void (agents = []),
    message,
    broken: (why) => void (fault.value = why),
  });
  return { figures, fault, close };
}
