// Lengths of time as text, read and written as on the command line: 500ms, 1h30m, 7d.
import { create } from "@bufbuild/protobuf";
import { DurationSchema, type Duration } from "@bufbuild/protobuf/wkt";

const units: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9, d: 86400e9, w: 604800e9 };
const part = /(\d+(?:\.\d+)?|\.\d+)(ns|us|µs|ms|s|m|h|d|w)/y;

/** ns of a text such as 1h30m; undefined where it is none. */
export function parseSpan(text: string): number | undefined {
  const trimmed = text.trim().replace(/\s+/g, "");
  if (trimmed === "0") return 0;
  let total = 0;
  let at = 0;
  while (at < trimmed.length) {
    part.lastIndex = at;
    const found = part.exec(trimmed);
    if (!found) return undefined;
    total += Number(found[1]) * (units[found[2] ?? ""] ?? Number.NaN);
    at = part.lastIndex;
  }
  return at > 0 && total < 9e18 ? Math.round(total) : undefined;
}

/** A length of time as parseSpan reads it, with whole numbers: 1m30s, 1s500ms. */
export function spanText(ns: number): string {
  if (ns < 0) return `-${spanText(-ns)}`;
  let rest = Math.round(ns);
  let text = "";
  for (const unit of ["d", "h", "m", "s", "ms", "us", "ns"]) {
    const size = units[unit] ?? 1;
    const n = Math.floor(rest / size);
    if (n > 0) text += `${n}${unit}`;
    rest -= n * size;
  }
  return text || "0s";
}

/** The message of a length of time. */
export function spanMessage(ns: number): Duration {
  const seconds = Math.trunc(ns / 1e9);
  return create(DurationSchema, { seconds: BigInt(seconds), nanos: Math.round(ns - seconds * 1e9) });
}

/** What to say of a text that is no length of time. */
export const spanRule = "Write a length of time such as 500ms, 10s, 1h30m or 7d.";
