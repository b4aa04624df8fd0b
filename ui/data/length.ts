// Durations as text, with the grammar of the Go package internal/quantity: 500ms, 1h30m, 7d.
import { create } from "@bufbuild/protobuf";
import { DurationSchema, type Duration } from "@bufbuild/protobuf/wkt";

const units: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, "μs": 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9, d: 86400e9, w: 604800e9 };
const part = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w)/y;

/** ns of a text such as 1h30m; undefined if it is not a duration. */
export function parseSpan(text: string): number | undefined {
  const [, sign, digits] = /^([-+]?)(.*)$/.exec(text.replace(/\s+/g, "")) ?? [];
  if (digits === "0") return 0;
  let total = 0;
  let at = 0;
  while (digits && at < digits.length) {
    part.lastIndex = at;
    const found = part.exec(digits);
    if (!found) return undefined;
    total += Number(found[1]) * (units[found[2] ?? ""] ?? Number.NaN);
    at = part.lastIndex;
  }
  if (at === 0 || total >= 2 ** 63) return undefined;
  return Math.round(sign === "-" ? -total : total);
}

/** A duration as parseSpan reads it, without units that are zero: 1m30s. */
export function spanText(ns: number): string {
  if (ns < 0) return `-${spanText(-ns)}`;
  let rest = Math.round(ns);
  let text = "";
  for (const unit of ["d", "h", "m"]) {
    const size = units[unit] ?? 1;
    if (rest >= size) text += `${Math.floor(rest / size)}${unit}`;
    rest %= size;
  }
  const unit = ["s", "ms", "us", "ns"].find((name) => rest >= (units[name] ?? 0)) ?? "s";
  return rest > 0 || text === "" ? `${text}${rest / (units[unit] ?? 1)}${unit}` : text;
}

const words: Record<string, string> = { us: "µs", m: "min" };

/** A duration in a sentence: 1 min 30 s. */
export const spanWords = (ns: number): string => spanText(ns).replace(/([\d.]+)([a-z]+)/g, (_, n: string, unit: string) => `${n}\u00a0${words[unit] ?? unit} `).trim();

/** The API message of a duration. */
export function spanMessage(ns: number): Duration {
  const seconds = Math.trunc(ns / 1e9);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos: Math.round(ns - seconds * 1e9) });
}

/** What to say of a text that is not a duration. */
export const spanRule = "Enter a duration such as 500ms, 10s, 1h30m or 7d.";
