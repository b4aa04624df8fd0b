// States in a word and a colour.

/** Severity of a state. */
export type Tone = "good" | "idle" | "warning" | "bad" | "busy";

const tones: Record<string, Tone> = {
  connected: "good", running: "good", done: "good", ok: "good",
  away: "bad", failed: "bad", missed: "bad", error: "bad", failing: "bad",
  degraded: "warning", warning: "warning", revoked: "idle",
  starting: "busy", stopping: "busy", scheduled: "busy", planned: "busy",
  paused: "idle", ended: "idle", info: "idle",
};

/** Badge shows a state of an agent, a session, a run or an event. */
export function Badge({ state, title }: { state: string; title?: string }) {
  return <span class={`badge ${tones[state] ?? "idle"}`} title={title}>{state}</span>;
}
