// Events of a period, kept up to date.
import { signal } from "@preact/signals";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Event } from "../gen/server_pb.ts";
import { sentence, serverClient } from "./client.ts";
import { millis } from "./time.ts";

const refreshMs = 2000;
const limit = 10_000; // events in one answer of the server
// Some events are reported after their time, such as the end of a loss.
const lagMs = 5 * 60_000;

/** The last ms until now, or a period in the past. */
export type Period = { last: number } | { from: number; to: number };

/** An event with its key and time. */
export interface Happening {
  key: string;
  /** ms since 1970. */
  time: number;
  event: Event;
}

/** The events with their keys and times, newest first. Equal events get different keys. */
export function happenings(events: readonly Event[]): Happening[] {
  const seen = new Map<string, number>();
  const all: Happening[] = [];
  for (const event of events) {
    const time = millis(event.time);
    if (time === undefined) continue;
    const text = [event.time?.seconds, event.time?.nanos, event.kind, event.agent, event.peer, event.session, event.message].join("\u0000");
    const n = seen.get(text) ?? 0;
    seen.set(text, n + 1);
    all.push({ key: n ? `${text}\u0000${n}` : text, time, event });
  }
  return all.sort((a, b) => b.time - a.time);
}

/** The union of both lists, newest first. */
export function merged(a: readonly Happening[], b: readonly Happening[]): Happening[] {
  const keys = new Set(a.map((h) => h.key));
  const fresh = b.filter((h) => !keys.has(h.key));
  return fresh.length ? [...fresh, ...a].sort((x, y) => y.time - x.time) : (a as Happening[]);
}

type Ask = (from: number, to: number | undefined, signal: AbortSignal) => Promise<Event[]>;

// Event times have fractions of a ms, requests do not.
const ask: Ask = async (from, to, signal) =>
  (await serverClient.listEvents({ from: timestampFromMs(Math.floor(from)), to: to === undefined ? undefined : timestampFromMs(Math.ceil(to)), limit }, { signal })).events;

/** Feed holds the events of a period until it is closed. */
export class Feed {
  /** Newest first; undefined before the first answer. */
  readonly events = signal<Happening[] | undefined>(undefined);
  /** The period has older events that are not loaded yet. */
  readonly cut = signal(false);
  /** Why the last query failed. */
  readonly fault = signal<string | undefined>(undefined);
  readonly busy = signal(false);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #abort = new AbortController();
  #ask: Ask;
  readonly period: Period;

  constructor(period: Period, question: Ask = ask) {
    this.period = period;
    this.#ask = question;
    document.addEventListener("visibilitychange", this.#seen);
    void this.#turn();
  }

  /** Start of the period, ms since 1970. */
  get from(): number {
    return "last" in this.period ? Date.now() - this.period.last : this.period.from;
  }

  /** End of the period, ms since 1970. */
  get to(): number {
    return "last" in this.period ? Date.now() : this.period.to;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#abort.abort();
    document.removeEventListener("visibilitychange", this.#seen);
  }

  #seen = (): void => {
    if (!document.hidden) void this.#turn();
  };

  /** Queries new events, or all before the first answer. */
  async #turn(): Promise<void> {
    clearTimeout(this.#timer);
    const live = "last" in this.period;
    const known = this.events.peek();
    if (!document.hidden && (live || !known)) {
      const newest = known?.[0]?.time;
      await this.#question(newest === undefined ? this.from : Math.max(newest - lagMs, this.from), live ? undefined : this.to, !known);
    }
    if (this.#abort.signal.aborted || (!live && this.events.peek())) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#turn(), refreshMs);
  }

  /** Queries the events before the oldest known one. */
  async older(): Promise<void> {
    const oldest = this.events.peek()?.at(-1)?.time;
    if (oldest === undefined || this.busy.peek()) return;
    await this.#question(this.from, oldest + 1, true);
  }

  async #question(from: number, to: number | undefined, edge: boolean): Promise<void> {
    const mine = this.#abort.signal;
    this.busy.value = edge;
    try {
      const answer = await this.#ask(from, to, mine);
      if (mine.aborted) return;
      const known = this.events.peek() ?? [];
      const start = this.from;
      const all = merged(known, happenings(answer));
      const first = all.findIndex((h) => h.time < start);
      const kept = first < 0 ? all : all.slice(0, first);
      if (kept !== known || this.events.peek() === undefined) this.events.value = kept;
      // A full answer without new events must not be requested endlessly.
      if (edge) this.cut.value = answer.length >= limit && kept.length > known.length;
      this.fault.value = undefined;
    } catch (fault) {
      if (!mine.aborted) this.fault.value = sentence(fault);
    }
    if (edge) this.busy.value = false;
  }
}
