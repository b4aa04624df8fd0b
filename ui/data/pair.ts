// Both directions of a pair on one time axis: stored or live, moving or paused.
import { computed, signal } from "@preact/signals";
import { returns } from "./link.ts";
import { pointsFor, Sliding, type Span } from "./span.ts";
import type { Figures } from "./window.ts";
import { Direction, reversed, type Selection } from "./windows.ts";

/** What is drawn; replaced as a whole, so that all charts show the same time. */
export interface Drawn {
  from: number;
  to: number;
  /** Length of a window, ms. */
  step: number;
  out: readonly Figures[];
  back: readonly Figures[];
  /** The server's time. */
  now: number;
}

const zoomRestMs = 180; // before a zoom is queried
const retryMs = 3000;
const aheadMs = 60e3; // queried beyond now, so that a slow clock does not cut off the newest windows
const longStepMs = 5000; // live windows of this length may be incomplete
const storedMs = 2500; // after which the rows of a finished window are stored
const refillMs = [5000, 20000]; // after a gap, when agents have delivered their spools

/** PairFeed queries both directions and combines them. */
export class PairFeed {
  readonly drawn = signal<Drawn | undefined>(undefined);
  /** The server has answered, and the range has no data. */
  readonly bare = computed(() => {
    const d = this.drawn.value;
    return d !== undefined && d.out.length + d.back.length === 0;
  });
  /** The range has data. */
  readonly full = computed(() => this.drawn.value !== undefined && !this.bare.value);
  /** A query is in progress. */
  readonly busy = signal(false);
  /** Since when it is paused; undefined while it moves. */
  readonly paused = signal<number | undefined>(undefined);
  readonly out: Direction;
  readonly back: Direction;
  #span: Span = { live: true, length: 300e3 };
  #sliding = new Sliding();
  #turn = 0;
  #good = -Infinity; // windows are complete until then
  #timers = new Set<ReturnType<typeof setTimeout>>();
  #ticker?: ReturnType<typeof setInterval>;
  #soon = false;
  #unsubscribe: () => void;

  constructor(selection: Selection, corrected = false) {
    const hooks = {
      changed: () => this.#draw(),
      newest: (end: number) => {
        this.#sliding.newest(end);
        this.#good = Math.max(this.#good, end);
      },
      serverTime: (ms: number) => {
        // The browser's clock was wrong, and so was the queried range.
        if (this.#sliding.server(ms) && this.#span.live) this.#after(0, () => this.#ask());
      },
    };
    this.out = new Direction(selection, { ...hooks, gap: () => this.#refill(this.out) }, corrected);
    this.back = new Direction(reversed(selection), { ...hooks, gap: () => this.#refill(this.back) }, corrected);
    let first = true;
    this.#unsubscribe = returns.subscribe(() => {
      if (!first) this.#returned();
      first = false;
    });
  }

  get #step(): number {
    return Math.max(this.out.windows.step, this.back.windows.step);
  }

  /** Shows a span; frozen: paused, ending there. */
  look(span: Span, frozen?: number): void {
    const rest = this.#span.live !== span.live || !span.live;
    this.#span = span;
    this.#cancel();
    this.#sliding.reset();
    this.#good = -Infinity;
    this.paused.value = frozen;
    clearInterval(this.#ticker);
    if (span.live) this.#ticker = setInterval(() => this.#tick(), 250);
    else this.#leave();
    this.#put(true);
    this.busy.value = true;
    if (rest && this.drawn.peek()) this.#after(zoomRestMs, () => this.#ask());
    else this.#ask();
  }

  /** Pauses the display; windows are still collected. */
  pause(): void {
    this.paused.value ??= this.drawn.peek()?.to ?? Date.now();
  }

  /** Resumes with the collected windows. */
  resume(): void {
    this.paused.value = undefined;
    if (this.#span.live && this.#good < this.#range().to - this.#span.length) this.#ask();
    else this.#put(true);
  }

  /** Queries the whole range again. */
  retry(): void {
    this.#ask();
  }

  close(): void {
    this.#unsubscribe();
    this.#cancel();
    clearInterval(this.#ticker);
    this.out.close();
    this.back.close();
  }

  #range(): { from: number; to: number } {
    if (!this.#span.live) return this.#span;
    const to = this.paused.peek() ?? this.#sliding.to(this.#step);
    return { from: to - this.#span.length, to };
  }

  #leave(): void {
    this.out.unfollow();
    this.back.unfollow();
  }

  async #ask(): Promise<void> {
    const turn = ++this.#turn;
    const span = this.#span;
    const { from, to } = this.#range();
    const until = span.live && this.paused.peek() === undefined ? to + aheadMs : to;
    const points = Math.ceil((pointsFor(span) * (until - from)) / (to - from));
    this.busy.value = true;
    let steps = await Promise.all([this.out.ask(from, until, points), this.back.ask(from, until, points)]);
    if (turn !== this.#turn) return;
    const step = Math.max(...steps);
    const finer = steps[0] < steps[1] ? this.out : this.back;
    if (Math.min(...steps) > 0 && steps[0] !== steps[1]) {
      // Sessions have different intervals, but the axis has one step.
      const same = await finer.ask(from, until, Math.max(1, Math.floor((until - from) / step)));
      if (turn !== this.#turn) return;
      if (same > 0) steps = finer === this.out ? [same, steps[1]] : [steps[0], same];
    }
    this.busy.value = false;
    const failed = this.out.status.peek().fault ?? this.back.status.peek().fault;
    if (failed) this.#after(retryMs, () => this.#ask());
    else this.#good = Math.max(this.#good, to);
    this.#put(true);
    if (span.live && step > 0) {
      this.out.follow(step);
      this.back.follow(step);
    }
  }

  /** The server is reachable again: queries everything, and again when agents have delivered their spools. */
  #returned(): void {
    const good = this.#good;
    void this.#ask();
    this.#late(good - 3 * this.#step, [this.out, this.back]);
  }

  #late(since: number, directions: Direction[]): void {
    for (const ms of refillMs) this.#after(ms, () => directions.forEach((d) => void this.#part(d, since)));
  }

  /** Queries what a direction missed since it was last complete. */
  #refill(direction: Direction): void {
    const step = this.#step;
    if (!this.#span.live || step === 0) return;
    const good = this.#good - 3 * step;
    this.#after(0, () => void this.#part(direction, good));
    if (this.#good < this.#sliding.to(step) - 5 * step) this.#late(good, [direction]);
  }

  /** Queries a direction from a time until now. */
  async #part(direction: Direction, since: number): Promise<void> {
    const step = this.#step;
    const turn = this.#turn;
    const span = this.#span;
    if (!span.live || step === 0) return;
    const to = this.#sliding.to(step) + aheadMs;
    const from = Math.floor(Math.max(since, to - aheadMs - span.length) / step) * step;
    const got = await direction.ask(from, to, Math.max(1, Math.round((to - from) / step)), true);
    if (turn === this.#turn && got > 0 && got !== step) void this.#ask();
  }

  #tick(): void {
    if (this.paused.peek() !== undefined || document.hidden) return;
    const { to } = this.#range();
    if (to === this.drawn.peek()?.to) return;
    this.#put();
    // A live window begins with the stream; of a long window the server has stored more.
    const step = this.#step;
    if (step < longStepMs) return;
    for (const direction of [this.out, this.back]) this.#after(storedMs, () => void this.#part(direction, to - 2 * step));
  }

  /** Redraws once for changes in quick succession: both directions often change together. */
  #draw(): void {
    if (this.#soon) return;
    this.#soon = true;
    this.#after(60, () => {
      this.#soon = false;
      this.#put();
    });
  }

  #put(always = false): void {
    if (this.paused.peek() !== undefined && !always) return;
    if (!this.out.status.peek().answered && !this.back.status.peek().answered) return; // unknown, not empty
    const { from, to } = this.#range();
    const step = this.#step;
    if (this.#span.live && this.paused.peek() === undefined) {
      this.out.windows.trim(from - 2 * step);
      this.back.windows.trim(from - 2 * step);
    }
    this.drawn.value = {
      from, to, step, now: this.#sliding.now(),
      out: this.out.windows.within(from, to), back: this.back.windows.within(from, to),
    };
  }

  #after(ms: number, act: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      act();
    }, ms);
    this.#timers.add(timer);
  }

  #cancel(): void {
    for (const t of this.#timers) clearTimeout(t);
    this.#timers.clear();
    this.#soon = false;
    this.#turn++;
  }
}
