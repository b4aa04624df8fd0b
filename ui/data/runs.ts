// Runs of sessions and their results.
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { SessionSpecSchema, type Pair, type Run, type Session } from "../gen/session_pb.ts";
import { flowClient, sessionClient } from "./client.ts";
import { allPages, pageSize } from "./pages.ts";
import { resource, type Resource } from "./resource.ts";
import { millis } from "./time.ts";
import { figuresOf, sum, type Figures } from "./window.ts";

/** The runs of all sessions in a period, by start. */
export function runsIn(from: number, to: number): Resource<Run[]> {
  return resource(5000, (signal) => allPages(async (pageToken) => {
    const page = await sessionClient.listRuns({ from: timestampFromMs(from), to: timestampFromMs(to), pageSize, pageToken }, { signal });
    return { items: page.runs, nextPageToken: page.nextPageToken };
  }));
}

/** A session with its runs of the last and the next week. */
export function sessionNamed(name: string) {
  return resource(2000, async (signal) => sessionClient.getSession({ name }, { signal }));
}

/**
 * The pairs of a session. An inactive session has none: then those that
 * its specification resolves to now.
 */
export async function pairsOf(session: Session, signal: AbortSignal): Promise<Pair[]> {
  if (session.pairs.length > 0 || !session.spec) return session.pairs;
  // without its times, which may be in the past
  const spec = create(SessionSpecSchema, { ...session.spec, start: undefined, duration: undefined, cron: "", timeZone: "" });
  return (await sessionClient.planSession({ spec }, { signal })).pairs;
}

/** The figures of a run over all its pairs; undefined: no data. */
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

/** Reports whether a run has started. */
export const began = (run: Run): boolean => run.state === "done" || run.state === "running";
