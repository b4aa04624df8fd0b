// Kinds of events.
import type { IconName } from "../part/icon.tsx";

export type Level = "info" | "warning" | "error";

/** The level of an event; an unknown one counts as a warning. */
export const levelOf = (level: string): Level => (level === "info" || level === "error" ? level : "warning");

export interface Kind {
  /** Such as "Path changed". */
  label: string;
  icon: IconName;
}

const kinds: Record<string, Kind> = {
  "agent-connected": { label: "Agent connected", icon: "agent" },
  "agent-lost": { label: "Agent lost", icon: "agent" },
  "agent-enrolled": { label: "Agent joined", icon: "agent" },
  "agent-revoked": { label: "Agent revoked", icon: "agent" },
  "agent-refused": { label: "Agent refused", icon: "agent" },
  "agent-duplicated": { label: "Duplicate agent name", icon: "agent" },
  "agent-recovered": { label: "Agent accepted after restore", icon: "agent" },
  "session-started": { label: "Session started", icon: "sessions" },
  "session-ended": { label: "Session ended", icon: "sessions" },
  "session-failed": { label: "Session did not start", icon: "sessions" },
  "start-missed": { label: "Missed start", icon: "sessions" },
  "task-failed": { label: "Task failed", icon: "sessions" },
  "path-validation-failed": { label: "Path validation failed", icon: "path" },
  "path-validation-passed": { label: "Path validation passed", icon: "path" },
  "address-unproven": { label: "Address not proven", icon: "path" },
  "address-proven": { label: "Addresses proven", icon: "path" },
  "probes-unanswered": { label: "Path probes not answered", icon: "path" },
  "probes-answered": { label: "Path probes answered again", icon: "path" },
  "program-hidden": { label: "Hidden by another program", icon: "path" },
  "program-reached": { label: "No longer hidden", icon: "path" },
  "no-room": { label: "No room for marks", icon: "path" },
  "room-again": { label: "Room for marks again", icon: "path" },
  "agent-approved": { label: "Agent's labels or addresses approved", icon: "agent" },
  "label-unapproved": { label: "Label not approved", icon: "agent" },
  "flow-mismatch": { label: "Flows told apart differently", icon: "path" },
  "address-conflict": { label: "Address conflict", icon: "agent" },
  "path-changed": { label: "Path changed", icon: "path" },
  loss: { label: "Loss", icon: "loss" },
  "loss-ended": { label: "Loss ended", icon: "loss" },
  silence: { label: "No packets arrive", icon: "loss" },
  "silence-ended": { label: "Packets arrive again", icon: "loss" },
  "flow-silence": { label: "Flow lost", icon: "loss" },
  "flow-silence-ended": { label: "Flow arrives again", icon: "loss" },
  alarm: { label: "Alarm", icon: "warning" },
  "alarm-ended": { label: "Alarm ended", icon: "warning" },
  "spool-dropped": { label: "Rows dropped", icon: "spool" },
  "spool-disk": { label: "Spool disk failing", icon: "spool" },
  "spool-damaged": { label: "Spool damaged", icon: "spool" },
  "batch-rejected": { label: "Rows rejected", icon: "spool" },
  "state-damaged": { label: "Server's state damaged", icon: "warning" },
  "retention-held": { label: "Retention held", icon: "clock" },
  "retention-resumed": { label: "Retention resumed", icon: "clock" },
  "quota-reached": { label: "Quota reached", icon: "warning" },
  "data-refused": { label: "Invalid data refused", icon: "warning" },
  thinning: { label: "Application streams thinned", icon: "spool" },
  "thinning-ended": { label: "Application streams complete again", icon: "spool" },
  "clock-unsynchronised": { label: "Clock unsynchronised", icon: "clock" },
  "clock-synchronised": { label: "Clock synchronised", icon: "clock" },
  "clock-stepped": { label: "Clock was set", icon: "clock" },
  "clock-apart": { label: "Clock differs from the server's", icon: "clock" },
  "clock-agrees": { label: "Clock agrees again", icon: "clock" },
  "lanes-moved": { label: "Lanes moved between servers", icon: "spool" },
};

/** Label and icon of a kind of event; an unknown one is shown by its name. */
export function kindOf(kind: string): Kind {
  const known = Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
  if (known) return known;
  const words = kind.replace(/[-_]+/g, " ").trim();
  return { label: words ? words.charAt(0).toUpperCase() + words.slice(1) : "Event", icon: "info" };
}
