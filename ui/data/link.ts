// Whether the server answers.
import { signal } from "@preact/signals";

/** Since when (ms since 1970) nobody answers, and why; undefined while all is well. */
export const silence = signal<{ since: number; why: string } | undefined>(undefined);

/** Grows each time the server is back, so that whoever holds old data asks anew. */
export const returns = signal(0);

/** The server has answered. */
export function heard(): void {
  if (silence.peek() === undefined) return;
  silence.value = undefined;
  returns.value++;
}

/** Nobody answered. */
export function unheard(why: string): void {
  silence.value ??= { since: Date.now(), why };
}
