// Path changes in the past.
import { signal } from "@preact/signals";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Event } from "../gen/server_pb.ts";
import { serverClient } from "./client.ts";
import { resource } from "./resource.ts";
import { millis } from "./time.ts";
import type { PathKey } from "./trace.ts";

const day = 86_400_000;

/** Selectable ranges. */
export const spans = { "24h": { label: "24 h", ms: day }, "7d": { label: "7 d", ms: 7 * day }, "30d": { label: "30 d", ms: 30 * day } } as const;
export type Span = keyof typeof spans;

/** The shown range. */
export const span = signal<Span>("24h");

/** One change. */
export interface Change {
  /** ms since 1970. */
  time: number;
  message: string;
  /** The path. */
  path: PathKey;
}

/** A change from its event, whose message alone has the address and protocol of the path. */
export function changeOf({ time, message, agent, peer }: Event): Change {
  const [, address = "", protocol = ""] = / \(([^ ,]+), (\w+)\) changed: /.exec(message) ?? [];
  return { time: millis(time) ?? 0, message, path: { source: agent, destination: peer, address, protocol } };
}

/** Limit of the server for changes in one answer. */
export const changesMost = 10_000;

/** Changes in the range, newest first. */
export const changes = resource(5000, async (abort) => {
  const from = timestampFromMs(Date.now() - spans[span.peek()].ms);
  const answer = await serverClient.listEvents({ from, kind: "path-changed", limit: changesMost }, { signal: abort });
  return answer.events.map(changeOf);
});
