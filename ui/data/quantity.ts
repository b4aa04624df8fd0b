// Figures as text, each with its unit, in the same form as on the command line.

/** Three significant figures. */
export function figures(v: number): string {
  const size = Math.abs(v);
  if (size === 0 || size >= 99.95) return v.toFixed(0);
  return v.toFixed(size >= 9.995 ? 1 : 2);
}

const none = "–";

/** A time in ns, such as "5.12 ms". */
export function duration(ns: number | undefined): string {
  if (ns === undefined || Number.isNaN(ns)) return none;
  const size = Math.abs(ns);
  if (size < 999.5) return `${Math.round(ns)} ns`;
  if (size < 999.5e3) return `${figures(ns / 1e3)} µs`;
  if (size < 999.5e6) return `${figures(ns / 1e6)} ms`;
  if (size < 120e9) return `${figures(ns / 1e9)} s`;
  if (size < 7200e9) return `${figures(ns / 60e9)} min`;
  return size < 172800e9 ? `${figures(ns / 3600e9)} h` : `${figures(ns / 86400e9)} d`;
}

function scaled(v: number | undefined, step: number, units: string[]): string {
  if (v === undefined || Number.isNaN(v)) return none;
  let unit = 0;
  while (Math.abs(v) >= step * 0.9995 && unit < units.length - 1) {
    v /= step;
    unit++;
  }
  return `${unit === 0 && Number.isInteger(v) ? v : figures(v)} ${units[unit]}`;
}

/** Bits per second, such as "12.3 Mbit/s". */
export const rate = (bits: number | undefined): string => scaled(bits, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);

/** Bytes, such as "1.5 MiB". */
export const bytes = (n: number | undefined): string => scaled(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);

/** Packets per second. */
export const packetRate = (n: number | undefined): string => scaled(n, 1000, ["pkt/s", "kpkt/s", "Mpkt/s"]);

/** A count with narrow spaces between thousands. */
export const count = (n: number | bigint | undefined): string =>
  n === undefined ? none : n.toString().replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

/** A share of 0 to 1 as per cent; only zero is shown as zero. */
export function share(v: number | undefined): string {
  if (v === undefined || Number.isNaN(v)) return none;
  const percent = v * 100;
  if (percent > 0 && percent < 0.005) return "<0.01 %";
  return `${percent === 0 || percent >= 99.995 ? percent.toFixed(0) : percent < 10 ? percent.toFixed(2) : percent.toFixed(1)} %`;
}

/** A share of 0 to 1 as per cent with that many decimals, where a hundredth of a per cent matters. */
export const ratio = (v: number, places: number): string => (Number.isNaN(v) ? none : `${(v * 100).toFixed(places)} %`);

/** Loss ratio; undefined if no packets were expected. */
export const lossOf = (lost: number, expected: number): number | undefined => (expected > 0 ? lost / expected : undefined);

/** How long ago, such as "12 s ago". */
export function ago(ms: number, now = Date.now()): string {
  const s = Math.max(0, Math.round((now - ms) / 1000));
  if (s < 2) return "now";
  if (s < 120) return `${s} s ago`;
  if (s < 7200) return `${Math.round(s / 60)} min ago`;
  return s < 172800 ? `${Math.round(s / 3600)} h ago` : `${Math.round(s / 86400)} d ago`;
}

/** A text in which numbers stay on one line with their units. */
export const unbroken = (text: string): string =>
  text.replace(/(\d) (?=(?:%|[nµm]?s|min|h|d|packets?|[KMGT]?i?B|[kMGT]?(?:bit|pkt)\/s)(?!\w))/g, "$1\u00a0");

const two = (n: number): string => String(n).padStart(2, "0");

/** Local time of day, such as "14:05:09". */
export function clock(ms: number): string {
  const d = new Date(ms);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** Local date and time, such as "2026-11-21 14:05:09". */
export function moment(ms: number): string {
  const d = new Date(ms);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(ms)}`;
}
