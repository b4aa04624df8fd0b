// Events of a range of time, kept up with what happens.
import { signal } from "@preact/signals";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Event } from "../gen/server_pb.ts";
import { sentence, serverClient } from "./client.ts";
import { millis } from "./time.ts";

const every = 2000; // ms between two questions
const most = 10_000; // events that the server gives at once
// Some events are of a time before the one at which they are told, such as the end of a loss.
const behind = 5 * 60_000;

/** What is asked for: the last so many ms, or a range of time that is over. */
export type Period = { last: number } | { from: number; to: number };

/** An event with what the page needs besides. */
export interface Happening {
  key: string;
  /** ms since 1970. */
  time: number;
  event: Event;
}

/** The events with their times, newest first; of equal ones as many as there are. */
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

/** Both lists as one, newest first, each event once. */
export function merged(a: readonly Happening[], b: readonly Happening[]): Happening[] {
  const keys = new Set(a.map((h) => h.key));
  const fresh = b.filter((h) => !keys.has(h.key));
  return fresh.length ? [...fresh, ...a].sort((x, y) => y.time - x.time) : (a as Happening[]);
}

type Ask = (from: number, to: number | undefined, signal: AbortSignal) => Promise<Event[]>;

// Events have times between two ms, messages take whole ones.
const ask: Ask = async (from, to, signal) =>
  (await serverClient.listEvents({ from: timestampFromMs(Math.floor(from)), to: to === undefined ? undefined : timestampFromMs(Math.ceil(to)), limit: most }, { signal })).events;

/** Feed holds the events of a period until it is closed. */
export class Feed {
  /** Newest first; undefined before the first answer. */
  readonly events = signal<Happening[] | undefined>(undefined);
  /** There are older events in the period that the server did not give yet. */
  readonly cut = signal(false);
  /** Why the last question failed. */
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

  /** Asks for what is new, or for all before the first answer. */
  async #turn(): Promise<void> {
    clearTimeout(this.#timer);
    const live = "last" in this.period;
    const known = this.events.peek();
    if (!document.hidden && (live || !known)) {
      const newest = known?.[0]?.time;
      await this.#question(newest === undefined ? this.from : Math.max(newest - behind, this.from), live ? undefined : this.to, !known);
    }
    if (this.#abort.signal.aborted || (!live && this.events.peek())) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#turn(), every);
  }

  /** Asks for the events before the oldest that is known. */
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
      // A full answer that brings nothing new would be asked for again and again.
      if (edge) this.cut.value = answer.length >= most && kept.length > known.length;
      this.fault.value = undefined;
    } catch (fault) {
      if (!mine.aborted) this.fault.value = sentence(fault);
    }
    if (edge) this.busy.value = false;
  }
}
