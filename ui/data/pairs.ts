// The figures of all pairs of hosts, live, while somebody looks at them.
import { createClient } from "@connectrpc/connect";
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { transport } from "./client.ts";
import { follow } from "./follow.ts";
import { kept, PairTable } from "./pair-table.ts";
import { PackedService, unpack, type Packed } from "./pair-wire.ts";

/** What is known of each pair. Views read it when `pairsTold` has changed. */
export const pairTable = new PairTable();

/** Grows when the table has changed: once for a message, and once for many that come together. */
export const pairsTold = signal(0);

/** Why the figures do not come; undefined while they do. */
export const pairsFault = signal<string | undefined>(undefined);

/** A second has come since the watch began, even one without pairs. */
export const pairsHeard = signal(false);

const client = createClient(PackedService, transport);
const restless = 2000; // ms after which views look again even if nothing came: figures grow old
let telling = false;
let told = 0;

/** Tells the views, with the next frame. */
function tell(): void {
  if (telling) return;
  telling = true;
  requestAnimationFrame(() => {
    telling = false;
    told = performance.now();
    pairsTold.value++;
  });
}

/** Follows the pairs of one session, or of all, until the returned function is called. */
export function watchPairs(session: string): () => void {
  pairTable.clear();
  pairsHeard.value = false;
  pairsFault.value = undefined;
  tell();
  const timer = setInterval(() => performance.now() - told > restless * 0.9 && tell(), restless);
  const stop = follow<Packed>({
    open: (abort) => client.watchPairs({ session, history: kept }, { signal: abort }) as unknown as AsyncIterable<Packed>,
    begin: () => pairTable.begin(),
    message: (m) => {
      pairTable.take(unpack(m));
      pairsHeard.value = true;
      pairsFault.value = undefined;
      tell();
    },
    broken: (why) => (pairsFault.value = why),
  });
  return () => {
    clearInterval(timer);
    stop();
  };
}

/** Follows the pairs while a component is shown. */
export function usePairs(session: string): void {
  useEffect(() => watchPairs(session), [session]);
}
