// Tick labels of the axes.
import { clock } from "../data/quantity.ts";

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const day = 86400e3;

/** A day, such as "21 Nov". */
export const dayName = (ms: number): string => {
  const d = new Date(ms);
  return `${d.getDate()} ${months[d.getMonth()] ?? ""}`;
};

/** Distances between time ticks, ms; uPlot uses the first that fits. */
export const timeSteps = [
  1, 2, 5, 10, 20, 50, 100, 200, 500,
  ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800].map((s) => s * 1000),
  ...[1, 2, 3, 4, 6, 8, 12].map((h) => h * 3600e3),
  ...[1, 2, 3, 4, 5, 7, 10, 14, 30].map((d) => d * day),
];

/** Local times in the precision of the step, with the date at the first tick and at each new day. */
export function timeLabels(ticks: ArrayLike<number>, step: number): string[] {
  let before = "";
  return Array.from(ticks, (t) => {
    const date = dayName(t);
    if (step >= day) return date;
    const time = step < 1000 ? `${clock(t)}.${String(Math.floor(t % 1000)).padStart(3, "0")}` : step < 60e3 ? clock(t) : clock(t).slice(0, 5);
    const label = date === before ? time : `${time}\n${date}`;
    before = date;
    return label;
  });
}

/** Values at ticks without trailing zeros; if ticks would look equal, distances from the lowest. */
export function valueLabels(ticks: number[], format: (v: number) => string): string[] {
  const plain = ticks.map((v) => short(format(v), v));
  if (new Set(plain).size === plain.length) return plain;
  const from = ticks[0] ?? 0;
  const apart = ticks.map((v, i) => (i === 0 ? short(format(v), v) : `+${short(format(v - from), v - from)}`));
  if (new Set(apart).size === apart.length) return apart;
  return plain.map((label, i) => (label === plain[i - 1] ? "" : label)); // beyond the precision of the format
}

function short(text: string, value: number): string {
  if (value === 0) return text.startsWith("0 %") ? text : "0";
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}
