// What the server says of a specification while it is typed.
import { signal, type ReadonlySignal } from "@preact/signals";
import type { PlanSessionResponse, SessionSpec } from "../gen/session_pb.ts";
import { sentence, sessionClient } from "./client.ts";

const pause = 250; // ms without typing before the server is asked
const again = 2000; // ms until the next try after a failure

export interface Planner {
  /** The last answer; the specification that was asked for last may be newer, see fresh. */
  readonly plan: ReadonlySignal<PlanSessionResponse | undefined>;
  /** Why there is no answer. */
  readonly fault: ReadonlySignal<string | undefined>;
  /** The answer is that to the last question. */
  readonly fresh: ReadonlySignal<boolean>;
  /** Asks, once nothing was asked for a moment. */
  ask(spec: SessionSpec): void;
  /** Asks no more. */
  close(): void;
}

type Ask = (spec: SessionSpec, signal: AbortSignal) => Promise<PlanSessionResponse>;

const server: Ask = (spec, signal) => sessionClient.planSession({ spec }, { signal });

/** Makes a planner; answers that come after a newer question are dropped. */
export function planner(question: Ask = server): Planner {
  const plan = signal<PlanSessionResponse | undefined>(undefined);
  const fault = signal<string | undefined>(undefined);
  const fresh = signal(false);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let abort = new AbortController();
  const run = async (spec: SessionSpec): Promise<void> => {
    const mine = new AbortController();
    abort = mine;
    try {
      const answer = await question(spec, mine.signal);
      if (mine.signal.aborted) return;
      plan.value = answer;
      fault.value = undefined;
      fresh.value = true;
    } catch (error) {
      if (mine.signal.aborted) return;
      fault.value = sentence(error);
      timer = setTimeout(() => void run(spec), again);
    }
  };
  const close = (): void => {
    clearTimeout(timer);
    abort.abort();
  };
  const ask = (spec: SessionSpec): void => {
    close();
    fresh.value = false;
    timer = setTimeout(() => void run(spec), pause);
  };
  return { plan, fault, fresh, ask, close };
}
