// How the route of a path changed.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { GetPathChangeResponse, Hop } from "../gen/topology_pb.ts";
import { topologyClient } from "./client.ts";

/** What all traces of one path have in common. */
export interface PathKey {
  source: string;
  destination: string;
  address: string;
  protocol: string;
}

/** The last change of a path until a time, ms since 1970. */
export const pathChange = ({ source, destination, address, protocol }: PathKey, until: number, signal: AbortSignal): Promise<GetPathChangeResponse> =>
  topologyClient.getPathChange({ source, destination, address, protocol, until: timestampFromMs(until) }, { signal });

/** A row of two routes side by side. */
export interface Line {
  was?: Hop;
  is?: Hop;
  /** "same" also where one of the two did not answer: that is no known difference. */
  kind: "same" | "gone" | "new";
}

/** Aligns two routes so that as many hops as possible stand beside themselves. */
export function compare(was: Hop[], is: Hop[], name: (address: string) => string = (x) => x): Line[] {
  // Length of the best alignment of the remaining hops, as for the longest common subsequence.
  const fit = (a?: Hop, b?: Hop): number => {
    if (!a || !b) return 0;
    if (!a.address || !b.address) return a.address === b.address || a.ttl === b.ttl ? 1 : 0;
    return name(a.address) === name(b.address) ? 3 : 0;
  };
  const best: number[][] = Array.from({ length: was.length + 1 }, () => new Array<number>(is.length + 1).fill(0));
  const at = (i: number, j: number): number => best[i]?.[j] ?? 0;
  for (let i = was.length - 1; i >= 0; i--) {
    for (let j = is.length - 1; j >= 0; j--) {
      const both = fit(was[i], is[j]);
      const row = best[i];
      if (row) row[j] = Math.max(at(i + 1, j), at(i, j + 1), both ? both + at(i + 1, j + 1) : 0);
    }
  }
  const lines: Line[] = [];
  for (let i = 0, j = 0; i < was.length || j < is.length;) {
    const both = fit(was[i], is[j]);
    if (both && at(i, j) === both + at(i + 1, j + 1)) lines.push({ was: was[i++], is: is[j++], kind: "same" });
    else if (j >= is.length || (i < was.length && at(i + 1, j) >= at(i, j + 1))) lines.push({ was: was[i++], kind: "gone" });
    else lines.push({ is: is[j++], kind: "new" });
  }
  return lines;
}
