// Why pairs are measured or not, as the server explains it.
import { useEffect, useMemo } from "preact/hooks";
import type { Reason } from "../gen/session_pb.ts";
import { sessionClient } from "./client.ts";
import { resource } from "./resource.ts";

export interface Explained {
  /** Undefined before the first answer. */
  reasons?: readonly Reason[];
  /** Why there is no answer. */
  fault?: string;
}

/** Asks why one direction is measured or not, by a session or by any, while that is wanted. */
export function useReasons(source: string, destination: string, session: string, wanted: boolean): Explained {
  const asked = useMemo(
    () => (wanted ? resource(5000, async (signal) => (await sessionClient.explainPair({ source, destination, session }, { signal })).reasons) : undefined),
    [source, destination, session, wanted],
  );
  useEffect(() => asked?.hold(), [asked]);
  return { reasons: asked?.value.value, fault: asked?.fault.value };
}

/** Errors come first, then what concerns a direction, then what concerns hosts. */
const rank = (r: Reason): number => (r.level === "error" ? 0 : r.where.includes(" > ") ? 1 : 2);

/** What is wrong, each once, the most important first. */
export function faults(reasons: readonly Reason[]): Reason[] {
  const wrong = reasons.filter((r) => r.level !== "ok").sort((a, b) => rank(a) - rank(b));
  const same = (a: Reason, b: Reason): boolean => a.where === b.where && a.name === b.name && a.found === b.found;
  return wrong.filter((r, i) => wrong.findIndex((other) => same(r, other)) === i);
}

/** Why a direction has no packets: the first fault that can take them away. */
export const cause = (reasons: readonly Reason[]): Reason | undefined => faults(reasons).find((r) => rank(r) < 2);
