// Service levels of a month: availability, delay and loss of each pair of hosts, beside targets.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ServiceLevel, ServiceLevelsRequestSchema } from "../gen/flow_pb.ts";
import { refused, token } from "./account.ts";
import { flowClient } from "./client.ts";
import { millis } from "./time.ts";
import type { Verdict } from "./reports.ts";

/** What is asked. Shares are fractions; a target of 0 is none. */
export interface LevelQuestion {
  /** YYYY-MM, in UTC. */
  month: string;
  /** Selectors of hosts and pairs; none: all. */
  scope: readonly string[];
  session: string;
  availability: number;
  loss: number;
  quantile: number;
  delayNs: number;
  /** A minute is down above this share of loss. */
  outage: number;
}

/** Quantiles of the delay that a target can have. */
export const quantiles = [0.5, 0.9, 0.99] as const;

/** The name of a quantile, such as p99. */
export const quantileName = (q: number): string => `p${Math.round(q * 100)}`;

/** The month of a time, in UTC. */
export const monthAt = (ms: number): string => new Date(ms).toISOString().slice(0, 7);

/** Beginning and end of a month, ms since 1970; undefined: it is none. */
export function monthRange(month: string): [number, number] | undefined {
  const [, year, number] = /^(\d{4})-(0[1-9]|1[0-2])$/.exec(month) ?? [];
  return Number(year) >= 1970 ? [Date.UTC(Number(year), Number(number) - 1), Date.UTC(Number(year), Number(number))] : undefined;
}

/** The month that many months later. */
export function monthAfter(month: string, months: number): string {
  const [from] = monthRange(month) ?? [Date.now()];
  const date = new Date(from);
  return monthAt(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months));
}

/** A month in words, such as "November 2026". */
export const monthWords = (month: string): string =>
  new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" }).format(monthRange(month)?.[0] ?? 0);

/** A share of a percentage without its sign, such as 0.999 of "99.9"; undefined: it is none. */
export function shareOf(text: string): number | undefined {
  // Not divided by 100, which would make 99.9 % a little more than 0.999.
  const value = /^\d{1,3}(\.\d{1,9})?$/.test(text) ? Number(`${text}e-2`) : NaN;
  return value <= 1 ? value : undefined;
}

/** A share as a percentage without its sign; empty: 0, which is no target. */
export const percentOf = (value: number): string => (value === 0 ? "" : String(Number((value * 100).toFixed(9))));

/** An answer, as far as it has come. */
export interface Levels {
  levels: readonly ServiceLevel[];
  /** Pairs with packets, of which levels may be a part. */
  found: number;
  /** End of the range that was read, ms since 1970. */
  until: number | undefined;
}

function requestOf({ month, scope, session, availability, loss, quantile, delayNs, outage }: LevelQuestion): MessageInitShape<typeof ServiceLevelsRequestSchema> {
  const [from, to] = monthRange(month) ?? [0, 0];
  return { from: timestampFromMs(from), to: timestampFromMs(to), scope: [...scope], session, availability, outage, loss, quantile, delayNs: BigInt(delayNs) };
}

/** Reads the levels one by one. */
export async function* readLevels(question: LevelQuestion, signal: AbortSignal): AsyncGenerator<Levels> {
  const levels: ServiceLevel[] = [];
  for await (const answer of flowClient.serviceLevels(requestOf(question), { signal })) {
    if (answer.level) levels.push(answer.level);
    yield { levels, found: answer.found, until: millis(answer.to) };
  }
}

/** The address of the report as a file. */
export function levelsFile(format: "html" | "csv", q: LevelQuestion): string {
  const query = new URLSearchParams({ month: q.month, format, quantile: String(q.quantile), outage: String(q.outage) });
  for (const part of q.scope) query.append("scope", part);
  if (q.session) query.set("session", q.session);
  for (const [name, value] of [["availability", q.availability], ["loss", q.loss], ["delay_ns", q.delayNs]] as const) if (value > 0) query.set(name, String(value));
  return `/service-levels?${query}`;
}

/** Downloads the report that the server makes. */
export async function downloadLevels(format: "html" | "csv", question: LevelQuestion): Promise<Blob> {
  const answer = await fetch(levelsFile(format, question), { headers: { Authorization: `Bearer ${token.peek()}` } });
  if (answer.ok) return answer.blob();
  const why = (await answer.text()).trim();
  if (answer.status === 401) refused(why);
  throw new Error(why);
}

/** The worst verdict of a pair; undefined: there are no targets. */
export function worstOf(level: ServiceLevel): Verdict | undefined {
  const all = [level.availabilityVerdict, level.delayVerdict, level.lossVerdict];
  return (["missed", "undecided", "met"] as const).find((v) => all.includes(v));
}

/** Pairs by their worst verdict. */
export function countLevels(levels: readonly ServiceLevel[]): Record<Verdict, number> {
  const counts = { met: 0, missed: 0, undecided: 0 };
  for (const level of levels) {
    const worst = worstOf(level);
    if (worst) counts[worst]++;
  }
  return counts;
}

/** An interval as text; undefined: neither end is known. */
export function intervalText(low: number, high: number, text: (v: number) => string): string | undefined {
  return Number.isNaN(low) && Number.isNaN(high) ? undefined : `${text(low)} to ${text(high)}`;
}
