// Rating of a host's clock.
import type { Agent } from "../../gen/agent_pb.ts";
import type { Tone } from "../../part/badge.tsx";
import { duration } from "../../data/quantity.ts";

interface ClockQuality {
  /** The rating. */
  word: string;
  /** The bound of its error, such as "± 12 µs"; empty if unknown. */
  bound: string;
  tone: Tone;
  /** Sort key: larger is worse. */
  error: number;
}

/** Rates a clock by its synchronisation and the bound of its error. */
export function clockQuality(agent: Agent): ClockQuality {
  const { clock } = agent;
  if (!clock) return { word: "unknown", bound: "", tone: "idle", error: Infinity };
  const error = Number(clock.maxErrorNs);
  const bound = `± ${duration(error)}`;
  if (!clock.synchronised) return { word: "unsynchronised", bound, tone: "bad", error: Math.max(error, 1e12) };
  if (error <= 100e3) return { word: "excellent", bound, tone: "good", error };
  if (error <= 2e6) return { word: "good", bound, tone: "good", error };
  return error <= 20e6 ? { word: "fair", bound, tone: "warning", error } : { word: "poor", bound, tone: "bad", error };
}
