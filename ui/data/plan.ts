// The server's plan while a specification is edited.
import { signal, type ReadonlySignal } from "@preact/signals";
import type { PlanSessionResponse, SessionSpec } from "../gen/session_pb.ts";
import { sentence, sessionClient } from "./client.ts";

const restMs = 250; // without input before the server is asked
const retryMs = 2000;

interface Planner {
  /** The last answer, possibly to an older specification, see fresh. */
  readonly plan: ReadonlySignal<PlanSessionResponse | undefined>;
  /** Why the last request failed. */
  readonly fault: ReadonlySignal<string | undefined>;
  /** The answer is for the latest specification. */
  readonly fresh: ReadonlySignal<boolean>;
  /** Requests a plan once the input rests. */
  ask(spec: SessionSpec): void;
  /** Cancels requests. */
  close(): void;
}

type Ask = (spec: SessionSpec, signal: AbortSignal) => Promise<PlanSessionResponse>;

const server: Ask = (spec, signal) => sessionClient.planSession({ spec }, { signal });

/** Makes a planner; answers to superseded requests are dropped. */
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
      timer = setTimeout(() => void run(spec), retryMs);
    }
  };
  const close = (): void => {
    clearTimeout(timer);
    abort.abort();
  };
  const ask = (spec: SessionSpec): void => {
    close();
    fresh.value = false;
    timer = setTimeout(() => void run(spec), restMs);
  };
  return { plan, fault, fresh, ask, close };
}
