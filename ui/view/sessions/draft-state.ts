// The state of the form: input, problems, and the server's plan.
import { useEffect, useMemo, useState } from "preact/hooks";
import { keep, kept } from "../../data/keep.ts";
import { keptDraft, specOf, suggestName, type Draft, type Fault } from "../../data/draft.ts";
import { planner } from "../../data/plan.ts";
import { place, type Placed } from "../../data/problem.ts";
import type { PlanSessionResponse, SessionSpec } from "../../gen/session_pb.ts";

export interface DraftState {
  draft: Draft;
  spec: SessionSpec;
  change(patch: Partial<Draft>): void;
  placed: Placed;
  /** The problem at an element; elements not yet touched show none. */
  fault(id: string): string | undefined;
  /** Shows all problems from now on. */
  insist(): void;
  plan: PlanSessionResponse | undefined;
  fresh: boolean;
  planFault: string | undefined;
  /** The input differs from the initial one. */
  typed: boolean;
  /** The input from before a reload was restored. */
  restored: boolean;
  /** Restores the initial input. */
  reset(): void;
  /** Deletes the kept input. */
  forget(): void;
}

/** Reports whether a required list is still empty. */
const empty = (d: Draft, id: string): boolean => (id === "f-sources" && d.sources.length === 0) || (id === "f-destinations" && d.destinations.length === 0);

/** Holds the input of a form under a key; begin is the initial input. */
export function useDraft(name: string, begin: Draft, taken: ReadonlySet<string>, create: boolean): DraftState {
  const [first] = useState(() => kept<Draft>(name));
  const [draft, setDraft] = useState<Draft>(keptDraft(first, begin));
  const [start] = useState(begin);
  const [restored, setRestored] = useState(first !== undefined);
  const [touched, setTouched] = useState<ReadonlySet<string>>(new Set());
  const [insisted, insist] = useState(false);
  const asked = useMemo(() => planner(), []);
  useEffect(() => () => asked.close(), [asked]);

  const named = draft.named || !create ? draft : { ...draft, name: suggestName(draft.sources, draft.destinations, taken) };
  const text = JSON.stringify(named);
  const { spec, faults } = useMemo(() => specOf(named), [text]);
  useEffect(() => asked.ask(spec), [spec]);

  const own: Fault[] = [...faults, ...nameFaults(named.name, taken, create)];
  const plan = asked.plan.value;
  const placed = useMemo(() => place(own, plan?.problems ?? [], named), [text, plan, JSON.stringify(own)]);
  const typed = JSON.stringify(draft) !== JSON.stringify(start);
  const change = (patch: Partial<Draft>): void => {
    setTouched(new Set([...touched, ...Object.keys(patch).map((k) => `f-${k}`)]));
    const next = { ...draft, ...patch };
    setDraft(next);
    keep(name, JSON.stringify(next) === JSON.stringify(start) ? undefined : next);
  };
  const reset = (): void => {
    setDraft(start);
    setTouched(new Set());
    setRestored(false);
    keep(name, undefined);
  };
  return {
    draft: named, spec, change, placed, plan, fresh: asked.fresh.value, planFault: asked.fault.value, typed, restored, reset,
    fault: (id) => (!insisted && !touched.has(id) && empty(named, id) ? undefined : placed.at.get(id)),
    insist: () => insist(true),
    forget: () => keep(name, undefined),
  };
}

function nameFaults(name: string, taken: ReadonlySet<string>, create: boolean): Fault[] {
  if (!create) return [];
  if (taken.has(name)) return [{ field: "name", message: "A session with this name exists. Choose another name, or delete that session after it has ended." }];
  if (name === "new") return [{ field: "name", message: "This name is reserved. Choose another." }];
  return [];
}
