// Runs of sessions, past and planned, and what past ones measured.
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { SessionSpecSchema, type Pair, type Run, type Session } from "../gen/session_pb.ts";
import { flowClient, sessionClient } from "./client.ts";
import { resource, type Resource } from "./resource.ts";
import { millis } from "./time.ts";
import { figuresOf, sum, type Figures } from "./window.ts";

/** The runs of all sessions that touch a range of time, by start. */
export function runsIn(from: number, to: number): Resource<Run[]> {
  return resource(5000, async (signal) => (await sessionClient.listRuns({ from: timestampFromMs(from), to: timestampFromMs(to) }, { signal })).runs);
}

/** One session with its runs of the last and the next week. */
export function sessionNamed(name: string) {
  return resource(2000, async (signal) => sessionClient.getSession({ name }, { signal }));
}

/**
 * The pairs of a session. While nothing runs the server holds none: then those that
 * its specification means now.
 */
export async function pairsOf(session: Session, signal: AbortSignal): Promise<Pair[]> {
  if (session.pairs.length > 0 || !session.spec) return session.pairs;
  // without its times, which may be over
  const spec = create(SessionSpecSchema, { ...session.spec, start: undefined, duration: undefined, cron: "", timeZone: "" });
  return (await sessionClient.planSession({ spec }, { signal })).pairs;
}

/** What a run measured until now, or to its end, over all its pairs; undefined: nothing. */
export async function resultOf(run: Run, signal: AbortSignal): Promise<Figures | undefined> {
  const now = Date.now();
  const from = millis(run.start) ?? now;
  const to = Math.max(from + 1, Math.min(millis(run.end) ?? now, now));
  // Rows of the last packets end shortly after the run.
  const answer = await flowClient.windows(
    { selection: { session: run.session }, from: timestampFromMs(Math.floor(from)), to: timestampFromMs(Math.ceil(to) + 1000), points: 1, histograms: true },
    { signal },
  );
  return sum(answer.windows.map(figuresOf));
}

/** A run that has begun, and so may have measured something. */
export const began = (run: Run): boolean => run.state === "done" || run.state === "running";
