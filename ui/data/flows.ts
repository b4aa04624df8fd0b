// The flows of one direction over a range of time.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { Flow, ListFlowsResponse, Pod } from "../gen/flow_pb.ts";
import { flowClient } from "./client.ts";
import { resource, type Resource } from "./resource.ts";
import type { Selection } from "./windows.ts";

/** Levels of aggregation. */
export const granularities = ["flow", "host-port", "host"] as const;
export type Granularity = (typeof granularities)[number];

/** Sort orders of the server. */
export const orders = ["packets", "bytes", "lost", "p50", "p90", "p99", "max", "last"] as const;

interface FlowQuestion {
  selection: Selection;
  granularity: Granularity;
  /** One of orders, or "flow": by its text, sorted in the page. */
  order: string;
  ascending: boolean;
  search: string;
  /** Polling period, ms. */
  every: number;
  /** The shown range at the time of the query. */
  range(): { from: number; to: number } | undefined;
}

const shown = 100;
const whole = 1000;

/** A resource of flows. Its first query is delayed while the user types or zooms. */
export function flowsOf(q: FlowQuestion): Resource<ListFlowsResponse | undefined> {
  const byText = q.order === "flow";
  let first = true;
  return resource(q.every, async (signal) => {
    if (first) await new Promise((done) => setTimeout(done, 200));
    first = false;
    const range = q.range();
    if (signal.aborted || !range) return undefined;
    const answer = await flowClient.listFlows({
      selection: q.selection, from: timestampFromMs(range.from), to: timestampFromMs(range.to), granularity: q.granularity,
      order: byText ? "packets" : q.order, ascending: !byText && q.ascending, search: q.search, limit: byText ? whole : shown,
    }, { signal });
    if (byText) answer.flows.sort((a, b) => flowText(a).localeCompare(flowText(b), "en", { numeric: true }) * (q.ascending ? 1 : -1));
    return answer;
  });
}

const end = (address: string, port: number): string => {
  if (!port) return address || "any";
  return address.includes(":") ? `[${address}]:${port}` : `${address || "any"}:${port}`;
};

/** A flow as text, such as "tcp 10.0.0.1:40000 → 10.0.0.2:443". */
export function flowText(f: Pick<Flow, "src" | "dst" | "proto" | "sport" | "dport">): string {
  const from = f.src || f.sport ? `${end(f.src, f.sport)} ` : "";
  return `${f.proto ? `${f.proto} ` : ""}${from}→ ${end(f.dst, f.dport)}`;
}

const podName = (pod: Pod | undefined, address: string): string => (pod ? `${pod.namespace}/${pod.name}` : address);

/** What has both ends of a flow: pods, such as "shop/cart-0", where they are known, or addresses; undefined if neither pod is known. */
export function podEnds(f: Pick<Flow, "src" | "dst" | "srcPod" | "dstPod">): readonly [source: string, destination: string] | undefined {
  return f.srcPod || f.dstPod ? [podName(f.srcPod, f.src), podName(f.dstPod, f.dst)] : undefined;
}

/** Where the pods of a flow run, for people: one line for each. */
export function podsTitle(f: Pick<Flow, "src" | "dst" | "srcPod" | "dstPod">): string {
  const lines = ([[f.srcPod, f.src], [f.dstPod, f.dst]] as const).flatMap(([pod, address]) =>
    pod ? [`Pod ${podName(pod, "")} on node ${pod.node} ${pod.held ? "has" : "last had"} ${address}`] : []);
  return lines.join("\n");
}
