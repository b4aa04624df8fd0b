// Live figures of all pairs, while they are shown.
import { createClient } from "@connectrpc/connect";
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { transport } from "./client.ts";
import { follow } from "./follow.ts";
import { kept, PairTable } from "./pair-table.ts";
import { PackedService, unpack, type Packed } from "./pair-wire.ts";

/** The latest figures of each pair. Views read it when `pairsVersion` changes. */
export const pairTable = new PairTable();

/** Incremented when the table has changed, at most once a frame. */
export const pairsVersion = signal(0);

/** Why the stream is interrupted; undefined while it works. */
export const pairsFault = signal<string | undefined>(undefined);

/** A message was received since the watch began. */
export const pairsReceived = signal(false);

const client = createClient(PackedService, transport);
const refreshMs = 2000; // views are updated without messages too, because figures become stale
let notifying = false;
let notified = 0;

/** Notifies the views with the next frame. */
function notify(): void {
  if (notifying) return;
  notifying = true;
  requestAnimationFrame(() => {
    notifying = false;
    notified = performance.now();
    pairsVersion.value++;
  });
}

/** Follows the pairs of one session, or of all, until the returned function is called. */
export function watchPairs(session: string): () => void {
  pairTable.clear();
  pairsReceived.value = false;
  pairsFault.value = undefined;
  notify();
  const timer = setInterval(() => performance.now() - notified > refreshMs * 0.9 && notify(), refreshMs);
  const stop = follow<Packed>({
    open: (abort) => client.watchPairs({ session, history: kept }, { signal: abort }) as unknown as AsyncIterable<Packed>,
    begin: () => pairTable.begin(),
    message: (m) => {
      pairTable.take(unpack(m));
      pairsReceived.value = true;
      pairsFault.value = undefined;
      notify();
    },
    broken: (why) => (pairsFault.value = why),
  });
  return () => {
    clearInterval(timer);
    stop();
  };
}

/** Follows the pairs while a component is shown, if they are wanted. */
export function usePairs(session: string, wanted = true): void {
  useEffect(() => (wanted ? watchPairs(session) : undefined), [session, wanted]);
}
