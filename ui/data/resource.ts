// Data polled from the server while it is shown.
import { computed, signal, type ReadonlySignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { sentence } from "./client.ts";

export interface Resource<T> {
  /** The last answer; undefined before the first. */
  readonly value: ReadonlySignal<T | undefined>;
  /** Why the last query failed; undefined if it succeeded. */
  readonly fault: ReadonlySignal<string | undefined>;
  /** Queries now. */
  refresh(): Promise<void>;
  /** Polls until the returned function is called. */
  hold(): () => void;
}

/**
 * Makes a resource that polls with a period in ms while it is held and the page is visible;
 * the period can depend on the last answer, so that large ones are polled less often.
 */
export function resource<T>(every: number | ((last: T | undefined) => number), ask: (signal: AbortSignal) => Promise<T>): Resource<T> {
  const value = signal<T | undefined>(undefined);
  const fault = signal<string | undefined>(undefined);
  let holders = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let asking: Promise<void> | undefined;
  let abort = new AbortController();

  const once = async (): Promise<void> => {
    const mine = abort.signal;
    try {
      const answer = await ask(mine);
      if (mine.aborted) return;
      value.value = answer;
      fault.value = undefined;
    } catch (error) {
      if (!mine.aborted) fault.value = sentence(error);
    }
  };
  const refresh = (): Promise<void> => (asking ??= once().finally(() => (asking = undefined)));
  const turn = async (): Promise<void> => {
    clearTimeout(timer);
    if (!document.hidden) await refresh();
    if (holders > 0) {
      clearTimeout(timer);
      timer = setTimeout(turn, typeof every === "number" ? every : every(value.peek()));
    }
  };
  const seen = (): void => void (document.hidden || turn());
  const hold = (): (() => void) => {
    if (++holders === 1) {
      abort = new AbortController();
      asking = undefined;
      document.addEventListener("visibilitychange", seen);
      void turn();
    }
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      if (--holders > 0) return;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
      abort.abort();
    };
  };
  return { value, fault, refresh, hold };
}

/** Part of a resource. */
export const mapped = <T, U>(r: Resource<T>, part: (value: T) => U): Resource<U> =>
  ({ ...r, value: computed(() => r.value.value && part(r.value.value)) });

/** Polls a resource while a component is shown. */
export function useResource<T>(r: Resource<T>): Resource<T> {
  useEffect(() => r.hold(), [r]);
  return r;
}
