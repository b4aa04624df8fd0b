// What the clock error means for delays.
import { duration } from "../../data/quantity.ts";
import type { Figures } from "../../data/window.ts";

export interface ClockWords {
  text: string;
  level: "good" | "soft" | "warning";
  /** The band around the median is small enough to be drawn. */
  drawn: boolean;
}

const plain = (ns: number): string => duration(ns);

/** How far the delays of windows can be trusted. */
export function clockWords(windows: readonly Figures[]): ClockWords | undefined {
  const known = windows.filter((f) => f.delay.count > 0);
  if (known.length === 0) return undefined;
  const errors = known.map((f) => f.clockError);
  const error = Math.max(...errors.filter((e) => !Number.isNaN(e)));
  const size = Math.max(...known.map((f) => Math.abs(f.delay.p50)));
  const top = Math.max(...known.map((f) => Math.abs(f.delay.p99)));
  const negative = known.some((f) => f.delay.min < 0);
  if (errors.every(Number.isNaN)) {
    return { level: "warning", drawn: false, text: "Clock error unknown: only changes of delay are meaningful." };
  }
  const some = errors.some(Number.isNaN) ? " Unknown for part of the time." : "";
  if (error === 0) return { level: "good", drawn: false, text: `Both hosts share one clock: delays are exact.${some}` };
  const offset = negative ? " Negative delays are due to the clock offset." : "";
  if (error > size) {
    return { level: "warning", drawn: error < 2 * top, text: `Clock error up to ±${plain(error)}, more than the delay: only changes of delay are meaningful.${offset}${some}` };
  }
  return { level: "soft", drawn: true, text: `Clock error up to ±${plain(error)}, shown as a band around the median.${offset}${some}` };
}
