// Kinds of events in plain words.

export type Level = "info" | "warning" | "error";

/** The level of an event; one that this page does not know counts as a warning. */
export const levelOf = (level: string): Level => (level === "info" || level === "error" ? level : "warning");

/** What an event is about, for its icon. */
export type Subject = "agent" | "session" | "path" | "loss" | "clock" | "spool" | "other";

export interface Kind {
  /** In plain words, such as "Path changed". */
  label: string;
  subject: Subject;
}

const kinds: Record<string, Kind> = {
  "agent-connected": { label: "Agent connected", subject: "agent" },
  "agent-lost": { label: "Agent lost", subject: "agent" },
  "agent-enrolled": { label: "Agent joined", subject: "agent" },
  "agent-revoked": { label: "Agent revoked", subject: "agent" },
  "agent-refused": { label: "Agent refused", subject: "agent" },
  "agent-duplicated": { label: "Two agents of one name", subject: "agent" },
  "session-started": { label: "Session started", subject: "session" },
  "session-ended": { label: "Session ended", subject: "session" },
  "session-failed": { label: "Session did not start", subject: "session" },
  "start-missed": { label: "Start missed", subject: "session" },
  "task-failed": { label: "Task failed", subject: "session" },
  "path-changed": { label: "Path changed", subject: "path" },
  loss: { label: "Loss", subject: "loss" },
  "loss-ended": { label: "Loss over", subject: "loss" },
  "spool-dropped": { label: "Rows dropped", subject: "spool" },
  "spool-disk": { label: "Spool disk failing", subject: "spool" },
  "batch-rejected": { label: "Rows rejected", subject: "spool" },
  thinning: { label: "Applications thinned", subject: "spool" },
  "thinning-ended": { label: "Applications send all again", subject: "spool" },
  "clock-unsynchronised": { label: "Clock not synchronised", subject: "clock" },
  "clock-synchronised": { label: "Clock synchronised", subject: "clock" },
};

/** What a kind of event means; one that this page does not know is shown by its name. */
export function kindOf(kind: string): Kind {
  const known = Object.hasOwn(kinds, kind) ? kinds[kind] : undefined;
  if (known) return known;
  const words = kind.replace(/[-_]+/g, " ").trim();
  return { label: words ? words.charAt(0).toUpperCase() + words.slice(1) : "Event", subject: "other" };
}
