// What the clocks' uncertainty means for delays, in words.
import { duration } from "../../data/quantity.ts";
import type { Figures } from "../../data/window.ts";

export interface ClockWords {
  text: string;
  level: "good" | "soft" | "warning";
  /** The band around the median can be drawn: it does not dwarf the delay. */
  drawn: boolean;
}

const plain = (ns: number): string => duration(ns);

/** Says how far the delays of windows can be trusted. */
export function clockWords(windows: readonly Figures[]): ClockWords | undefined {
  const known = windows.filter((f) => f.delay.count > 0);
  if (known.length === 0) return undefined;
  const errors = known.map((f) => f.clockError);
  const error = Math.max(...errors.filter((e) => !Number.isNaN(e)));
  const size = Math.max(...known.map((f) => Math.abs(f.delay.p50)));
  const top = Math.max(...known.map((f) => Math.abs(f.delay.p99)));
  const negative = known.some((f) => f.delay.min < 0);
  if (errors.every(Number.isNaN)) {
    return { level: "warning", drawn: false, text: "Nobody knows how far the clocks are off: only changes of delay mean something." };
  }
  const some = errors.some(Number.isNaN) ? " For some of the time this is not known." : "";
  if (error === 0) return { level: "good", drawn: false, text: `One clock: both hosts share it, so delays are exact.${some}` };
  const offset = negative ? " Delays below zero are an offset of the clocks, not errors." : "";
  if (error > size) {
    return { level: "warning", drawn: error < 2 * top, text: `Clocks may be off by ±${plain(error)}, more than the delay: only changes of delay mean something.${offset}${some}` };
  }
  return { level: "soft", drawn: true, text: `Clocks may be off by ±${plain(error)}, drawn as a band around the median.${offset}${some}` };
}
