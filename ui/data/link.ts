// Reachability of the server.
import { signal } from "@preact/signals";

/** Since when (ms since 1970) the server is unreachable, and why; undefined while it is reachable. */
export const outage = signal<{ since: number; why: string } | undefined>(undefined);

/** Incremented each time the server is reachable again, so that data can be reloaded. */
export const returns = signal(0);

/** The server has answered. */
export function reached(): void {
  if (outage.peek() === undefined) return;
  outage.value = undefined;
  returns.value++;
}

/** The server did not answer. */
export function unreached(why: string): void {
  outage.value ??= { since: Date.now(), why };
}
