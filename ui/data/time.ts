// Protobuf times as numbers.
import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";

/** ms since 1970; undefined if unset. */
export const millis = (t: Timestamp | undefined): number | undefined =>
  t === undefined ? undefined : Number(t.seconds) * 1000 + t.nanos / 1e6;

/** ns of a duration; undefined if unset. */
export const nanos = (d: Duration | undefined): number | undefined =>
  d === undefined ? undefined : Number(d.seconds) * 1e9 + d.nanos;
