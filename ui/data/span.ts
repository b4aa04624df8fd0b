// The shown time range: a length until now, or from one time to another.
import { parseSpan } from "./length.ts";

/** A time range. */
export type Span = { live: true; length: number } | { live: false; from: number; to: number };

/** Offered lengths with their labels. */
export const lengths: readonly { key: string; words: string }[] = [
  { key: "1m", words: "1 min" }, { key: "5m", words: "5 min" }, { key: "15m", words: "15 min" }, { key: "1h", words: "1 h" },
  { key: "6h", words: "6 h" }, { key: "24h", words: "24 h" }, { key: "7d", words: "7 d" }, { key: "30d", words: "30 d" },
];

/** The default length. */
export const usual = "5m";

export const shortest = 1e3;
export const longest = 400 * 86400e3;

/** ms of a length such as "15m"; undefined if invalid. */
export function lengthOf(key: string | null): number | undefined {
  const ms = (parseSpan(key ?? "") ?? NaN) / 1e6;
  return ms >= 10e3 && ms <= longest ? ms : undefined;
}

/** The range in an address. */
export function spanOf(query: URLSearchParams): Span {
  const from = Number(query.get("from") ?? NaN);
  const to = Number(query.get("to") ?? NaN);
  if (to - from >= shortest && to - from <= longest) return { live: false, from, to };
  return { live: true, length: lengthOf(query.get("range")) ?? lengthOf(usual) ?? 300e3 };
}

/** A range as query of an address. */
export function queryOf(span: Span): { range?: string; from?: number; to?: number } {
  if (!span.live) return { range: undefined, from: Math.round(span.from), to: Math.round(span.to) };
  const key = lengths.find((l) => lengthOf(l.key) === span.length)?.key ?? `${Math.round(span.length / 1000)}s`;
  return { range: key === usual ? undefined : key, from: undefined, to: undefined };
}

/** A length as text, such as "1.5 h". */
export function lengthWords(ms: number): string {
  for (const [size, unit] of [[86400e3, "d"], [3600e3, "h"], [60e3, "min"]] as const)
    if (ms >= 2 * size || ms % size === 0 && ms > 0) return `${Number((ms / size).toPrecision(3))} ${unit}`;
  return `${Number((ms / 1e3).toPrecision(3))} s`;
}

/** Maximum number of windows to request: short ranges in full resolution, longer ones as a screen can show. */
export function pointsFor(span: Span): number {
  const length = span.live ? span.length : span.to - span.from;
  if (length <= 900e3) return Math.max(10, Math.ceil(span.live ? length / 1e3 : Math.min(900, length / 100)));
  return 480;
}

/**
 * Sliding determines "now" while windows arrive: the end of the newest plus the time that
 * has passed since. The browser's clock is only used for differences, because it may be wrong.
 */
export class Sliding {
  #offset = 0; // of the browser's clock to the clock of the windows
  #server = 0; // offset of the browser's clock to the server's
  #known = 0; // source of the offset. 0: none; 1: the server's time; 2: a window
  #end = -Infinity;
  #to = -Infinity;

  /** Takes the server's time. Reports whether the shown range was wrong. */
  server(ms: number, browser = Date.now()): boolean {
    this.#server = ms - browser;
    if (this.#known > 1) return false;
    const other = Math.abs(ms - browser - this.#offset) > 5000;
    this.#offset = ms - browser;
    this.#known = 1;
    if (other) this.reset();
    return other;
  }

  /** Takes the end of a live window. */
  newest(end: number, browser = Date.now()): void {
    // Old windows at the beginning of a stream do not define now.
    if (end <= this.#end || (this.#known === 1 && end < browser + this.#offset - 60e3)) return;
    if (this.#known === 1) this.reset();
    this.#end = end;
    this.#offset = end - browser;
    this.#known = 2;
  }

  /** The right edge of the shown range: a multiple of the step, never decreasing. */
  to(step: number, browser = Date.now()): number {
    const size = Math.max(step, 1000);
    // Wait for a window that is slightly late, so that the edge does not move twice.
    const grace = this.#known > 1 ? 0.7 * Math.min(size, 1000) : 0;
    const passed = Math.floor((browser + this.#offset - grace) / size) * size;
    this.#to = Math.max(this.#to, passed, Math.ceil(this.#end / size) * size);
    return this.#to;
  }

  /** The time at the server. */
  now(browser = Date.now()): number {
    return browser + this.#server;
  }

  /** The step changed: the edge may decrease. */
  reset(): void {
    this.#to = -Infinity;
  }
}
