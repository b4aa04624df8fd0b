// The windows of one direction: stored ones and live ones.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { signal } from "@preact/signals";
import { flowClient, sentence } from "./client.ts";
import { follow } from "./follow.ts";
import { figuresOf, type Figures } from "./window.ts";

/** Selects rows; missing fields match everything. */
export interface Selection {
  source: string;
  destination: string;
  session?: string;
  src?: string;
  dst?: string;
  proto?: string;
  sport?: number;
  dport?: number;
}

/** The same traffic in the other direction. */
export function reversed(s: Selection): Selection {
  return { ...s, source: s.destination, destination: s.source, src: s.dst, dst: s.src, sport: s.dport, dport: s.sport };
}

/** Limit of windows held per direction, so that a page left open does not grow. */
export const most = 6000;

/** Windows by time, stored ones merged with live ones. */
export class WindowList {
  #list: readonly Figures[] = [];
  #step = 0;

  get list(): readonly Figures[] {
    return this.#list;
  }

  /** Length of a window, ms; 0 before the first. */
  get step(): number {
    return this.#step;
  }

  /**
   * Takes stored windows from a time on. Live windows stay if they are more complete: an
   * answer may be older than they are. Earlier windows stay if only a part was requested.
   */
  replace(history: readonly Figures[], step: number, from: number, part = false): void {
    const before = step === this.#step ? this.#list.filter((f) => part || f.start > from - step) : [];
    this.#step = step;
    this.#list = before.length === 0 ? history.slice(-most) : merged(before, history, fuller).slice(-most);
  }

  /** Takes live windows, each replacing the one with its start. Reports whether their step fits. */
  add(live: readonly Figures[], step: number): boolean {
    if (live.length === 0) return true;
    if (this.#step !== 0 && step !== this.#step) return false;
    this.#step = step;
    const sorted = [...live].sort((a, b) => a.start - b.start);
    // After a restart the server may have only the end of a window that is stored completely.
    this.#list = merged(this.#list, sorted, fuller).slice(-most);
    return true;
  }

  /** Drops windows that end before a time. */
  trim(from: number): void {
    const first = this.#list.findIndex((f) => f.start + this.#step >= from);
    if (first > 0) this.#list = this.#list.slice(first);
    else if (first < 0) this.#list = [];
  }

  /** The windows that overlap a range, and one more on either side so that lines reach its edges. */
  within(from: number, to: number): readonly Figures[] {
    return this.#list.filter((f) => f.start > from - 2 * this.#step && f.start < to + this.#step);
  }

  clear(): void {
    this.#list = [];
    this.#step = 0;
  }
}

const weight = (f: Figures): number => f.packets + f.lost + f.duplicated;
const fuller = (old: Figures, young: Figures): Figures => (weight(old) > weight(young) ? old : young);

function merged(a: readonly Figures[], b: readonly Figures[], choose: (a: Figures, b: Figures) => Figures): Figures[] {
  const all: Figures[] = [];
  let i = 0;
  let j = 0;
  for (;;) {
    const x = a[i];
    const y = b[j];
    if (x && (!y || x.start < y.start)) (all.push(x), i++);
    else if (y && (!x || y.start < x.start)) (all.push(y), j++);
    else if (x && y) (all.push(choose(x, y)), i++, j++);
    else return all;
  }
}

/** The state of a direction besides its windows. */
interface Status {
  /** A query succeeded at least once. */
  answered: boolean;
  /** Why the last query failed. */
  fault?: string;
  /** Why the live stream is interrupted. */
  broken?: string;
  /** Quantiles are sampled from one in this many rows. */
  sampled: number;
  /** Sessions with rows, those with the most packets first. */
  sessions: string[];
}

interface DirectionHooks {
  /** Windows or state changed. */
  changed(): void;
  /** Live windows arrived; the newest ends then. */
  newest(end: number): void;
  /** The server's time when it answered, ms since 1970. */
  serverTime(ms: number): void;
  /** The stream was reopened: the gap has to be queried. */
  gap(): void;
}

const unanswered: Status = { answered: false, sampled: 1, sessions: [] };

/** Direction queries and follows the windows of one direction. */
export class Direction {
  readonly windows = new WindowList();
  readonly status = signal<Status>(unanswered);
  #hooks: DirectionHooks;
  #selection: Selection;
  #asking = new AbortController();
  #unfollow?: () => void;
  #following = 0;

  #corrected: boolean;

  constructor(selection: Selection, hooks: DirectionHooks, corrected = false) {
    this.#selection = selection;
    this.#corrected = corrected;
    this.#hooks = hooks;
  }

  /**
   * Queries a range in at most `points` windows and returns their length, 0 on failure. A part
   * is merged with the existing windows, if their length is the same.
   */
  async ask(from: number, to: number, points: number, part = false): Promise<number> {
    if (!part) this.#asking.abort();
    const mine = part ? this.#asking : (this.#asking = new AbortController());
    try {
      const answer = await flowClient.windows(
        { selection: this.#selection, from: timestampFromMs(from), to: timestampFromMs(to), points, histograms: true, corrected: this.#corrected },
        { signal: mine.signal, onHeader: (h) => this.#time(h.get("date")) },
      );
      if (mine.signal.aborted) return 0;
      const step = Number(answer.stepMs);
      if (part && step !== this.windows.step) return step;
      this.windows.replace(answer.windows.map(figuresOf), step, from, part);
      this.status.value = { ...this.status.value, answered: true, fault: undefined, sampled: Math.max(1, answer.sampled), sessions: answer.sessions };
      this.#hooks.changed();
      return step;
    } catch (fault) {
      if (!mine.signal.aborted) this.status.value = { ...this.status.value, fault: sentence(fault) };
      return 0;
    }
  }

  #time(date: string | null): void {
    const ms = date ? Date.parse(date) : NaN;
    if (!Number.isNaN(ms)) this.#hooks.serverTime(ms);
  }

  /** Follows windows of a step until unfollow. */
  follow(step: number): void {
    if (this.#unfollow && this.#following === step) return;
    this.unfollow();
    this.#following = step;
    let fresh = true;
    let reportedStep = 0;
    this.#unfollow = follow({
      open: (signal) => flowClient.watchWindows({ selection: this.#selection, histograms: true, stepMs: BigInt(step), corrected: this.#corrected }, { signal }),
      begin: () => (fresh = true),
      message: (m) => {
        if (this.status.peek().broken) this.status.value = { ...this.status.peek(), broken: undefined };
        // Windows between the last answer and this connection are in no message.
        if (fresh) this.#hooks.gap();
        fresh = false;
        const length = Number(m.stepMs);
        const live = m.windows.map(figuresOf);
        if (!this.windows.add(live, length)) {
          // The interval of the rows has changed: report each new length once.
          if (reportedStep !== length) this.#hooks.gap();
          reportedStep = length;
          return;
        }
        const last = live.at(-1);
        if (!last) return;
        this.#hooks.newest(Math.max(...live.map((f) => f.start)) + length);
        this.#hooks.changed();
      },
      broken: (why) => (this.status.value = { ...this.status.peek(), broken: why }),
    });
  }

  unfollow(): void {
    this.#unfollow?.();
    this.#unfollow = undefined;
    this.#following = 0;
    if (this.status.peek().broken) this.status.value = { ...this.status.peek(), broken: undefined };
  }

  close(): void {
    this.unfollow();
    this.#asking.abort();
  }
}
