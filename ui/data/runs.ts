// Runs of sessions, past and planned, and what past ones measured.
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Window } from "../gen/flow_pb.ts";
import { SessionSpecSchema, type Pair, type Run, type Session } from "../gen/session_pb.ts";
import { flowClient, sessionClient } from "./client.ts";
import { resource, type Resource } from "./resource.ts";
import { millis } from "./time.ts";

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

/** What a run measured, all its pairs added up. */
export interface Result {
  packets: number;
  expected: number;
  lost: number;
  /** ns; NaN where no delay was measured. */
  p50: number;
  p99: number;
}

/** Adds windows up. Quantiles of several come from their histograms. */
export function total(windows: readonly Window[]): Result {
  const sum = (of: (w: Window) => bigint): number => windows.reduce((n, w) => n + Number(of(w)), 0);
  const counts = { packets: sum((w) => w.packets), expected: sum((w) => w.expected), lost: sum((w) => w.lost) };
  const only = windows.length === 1 ? windows[0]?.delay : undefined;
  if (only) return { ...counts, p50: only.p50Ns, p99: only.p99Ns };
  const buckets = new Map<number, number>();
  for (const w of windows) w.boundsNs.forEach((bound, i) => buckets.set(bound, (buckets.get(bound) ?? 0) + (w.counts[i] ?? 0)));
  return { ...counts, p50: quantile(buckets, 0.5), p99: quantile(buckets, 0.99) };
}

/** The middle of the bucket that holds a quantile; buckets are at most 3.2 % wide. */
function quantile(buckets: ReadonlyMap<number, number>, q: number): number {
  const all = [...buckets].sort(([a], [b]) => a - b);
  let left = q * all.reduce((n, [, count]) => n + count, 0);
  for (const [bound, count] of all) {
    left -= count;
    if (left <= 0 && count > 0) return bound * 1.016;
  }
  return Number.NaN;
}

/** Asks what a run measured up to now, or to its end. */
export async function resultOf(run: Run, signal: AbortSignal): Promise<Result> {
  const now = Date.now();
  const from = millis(run.start) ?? now;
  const to = Math.max(from + 1, Math.min(millis(run.end) ?? now, now));
  // Rows of the last packets come a moment after the end.
  const answer = await flowClient.windows(
    { selection: { session: run.session }, from: timestampFromMs(Math.floor(from)), to: timestampFromMs(Math.ceil(to) + 1000), points: 1, histograms: true },
    { signal },
  );
  return total(answer.windows);
}

/** A run that has begun, and so may have measured something. */
export const began = (run: Run): boolean => run.state === "done" || run.state === "running";
