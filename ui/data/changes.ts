// Changes of paths in the past.
import { signal } from "@preact/signals";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Event } from "../gen/server_pb.ts";
import { serverClient } from "./client.ts";
import { resource } from "./resource.ts";
import { millis } from "./time.ts";
import type { PathKey } from "./trace.ts";

const day = 86_400_000;

/** Ranges that can be chosen. */
export const spans = { "24h": { label: "24 hours", ms: day }, "7d": { label: "7 days", ms: 7 * day }, "30d": { label: "30 days", ms: 30 * day } } as const;
export type Span = keyof typeof spans;

/** The range that is shown. */
export const span = signal<Span>("24h");

/** One change. */
export interface Change {
  /** ms since 1970. */
  time: number;
  message: string;
  /** Which path; undefined where the message does not say. */
  path?: PathKey;
  /** The routes in words. */
  was?: string;
  is?: string;
}

const pattern = /^path from (\S+) to (\S+) \(([0-9a-fA-F.:%]+), (\w+)\) changed: was (.*), is (.*)$/;

/** Reads a change from its event. */
export function changeOf(event: Event): Change {
  const [, source, destination, address, protocol, was, is] = pattern.exec(event.message) ?? [];
  const change: Change = { time: millis(event.time) ?? 0, message: event.message };
  if (!source || !destination || !address || !protocol) return change;
  return { ...change, path: { source, destination, address, protocol }, was, is };
}

/** Most changes that are asked for; the server gives no more. */
export const changesMost = 10_000;

/** Changes in the range, newest first. */
export const changes = resource(5000, async (abort) => {
  const from = timestampFromMs(Date.now() - spans[span.peek()].ms);
  const answer = await serverClient.listEvents({ from, kind: "path-changed", limit: changesMost }, { signal: abort });
  return answer.events.map(changeOf);
});
