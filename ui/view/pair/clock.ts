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

/** What the correction of the clocks means for the delays of windows. */
export function correctedWords(windows: readonly Figures[]): ClockWords | undefined {
  const measured = windows.filter((f) => f.packets > 0);
  const last = windows.findLast((f) => f.corrected)?.corrected;
  if (measured.length === 0) return undefined;
  if (!last) {
    return { level: "warning", drawn: false, text: "No clock offset is known here: its estimate needs some seconds of delays, and hosts with clocks of their own. Show delays as measured." };
  }
  const known = windows.flatMap((f) => (f.corrected && f.delay.count > 0 ? [f.corrected] : []));
  const lacking = measured.length > known.length ? " Without an estimate for part of the time." : "";
  const drift = `${(last.skew / 1000).toFixed(2)} ± ${(last.skewBound / 1000).toFixed(2)} ppm`;
  const resolution = last.resolution > 1000 ? ` Quantiles have a resolution of ${plain(last.resolution)}.` : "";
  if (known.some((c) => Number.isNaN(c.bound))) {
    return { level: "warning", drawn: false, text: `Corrected for the drift of the clocks (${drift}); their offset is unknown, since only this direction is measured: only changes of delay are meaningful.${resolution}${lacking}` };
  }
  const bound = Math.max(...known.map((c) => c.bound));
  const segments = new Set(known.map((c) => Math.round(c.segment / 5000))).size;
  const steps = segments > 1 ? ` A clock was set, or its rate changed, ${segments === 2 ? "once" : `${segments - 1} times`}.` : "";
  return {
    level: "soft", drawn: true,
    text: `Corrected by the estimated clock offset, last ${plain(last.offset)}, drifting ${drift}. Absolute delays are known to within ±${plain(bound)}, shown as a band around the median; changes of delay more accurately.${steps}${resolution}${lacking}`,
  };
}
