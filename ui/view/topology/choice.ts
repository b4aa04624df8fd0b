// The selection of the topology view, kept in the address.
import { inPackets } from "../../data/one-way.ts";
import { familyOf, pairName, type Family, type PathEntry } from "../../data/topology.ts";
import { refine, type Route } from "../../data/route.ts";
import type { PathKey } from "../../data/trace.ts";

export interface Choice {
  source: string;
  destination: string;
  /** Address of the path; empty: the first path. */
  address: string;
  protocol: string;
  /** Metric of the edge colours. */
  by: "delay" | "loss";
  session: string;
  /** Also show the path at this time, ms since 1970. */
  at?: number;
  /** Address family of the paths; undefined: the family of the address, else the only one present. */
  family?: Family;
  /** By site: the sites whose hosts are shown; undefined: all hosts are shown. */
  open?: string[] | undefined;
}

/** Reads the selection from the address. */
export function choiceOf({ query }: Route): Choice {
  const [source = "", destination = ""] = (query.get("pair") ?? "").split(">");
  const at = Number(query.get("at"));
  const family = query.get("family");
  return {
    source, destination, address: query.get("address") ?? "", protocol: query.get("protocol") ?? "",
    by: query.get("by") === "loss" ? "loss" : "delay", session: query.get("session") ?? "",
    at: at > 0 && at < 8.64e15 ? at : undefined,
    family: family === "4" || family === "6" || family === "all" ? family : undefined,
    open: query.get("view") === "sites" ? (query.get("open") ?? "").split(",").filter(Boolean) : undefined, // labels have no commas
  };
}

/** Shows the hosts of these sites, and one node for each other site. */
export function openSites(open: readonly string[]): void {
  refine({ open: open.join(",") || undefined });
}

/** Selects a pair or one end of it. */
export function choosePair(source: string, destination: string): void {
  refine({ pair: source || destination ? pairName(source, destination) : undefined, address: undefined, protocol: undefined, at: undefined });
}

/** Selects a path. */
export function choosePath(path: PathKey, at?: number): void {
  refine({ pair: pairName(path.source, path.destination), address: path.address, protocol: path.protocol, at, family: undefined });
}

/** The shown address family. */
export function shownFamily(choice: Choice, paths: readonly PathEntry[]): Family {
  if (choice.family) return choice.family;
  if (choice.address) return choice.address.includes(":") ? "6" : "4";
  const pair = paths.filter((p) => p.source === choice.source && p.destination === choice.destination);
  if (pair.some(inPackets)) return "6"; // of which there are figures of each hop
  return paths.length > 0 && paths.every((p) => familyOf(p) === "6") ? "6" : "4";
}

/** The paths of the selected pair, and the shown one. */
export function chosenPaths(choice: Choice, paths: readonly PathEntry[], family: Family): { all: PathEntry[]; shown?: PathEntry } {
  const all = paths.filter((p) => p.source === choice.source && p.destination === choice.destination);
  const fits = all.filter((p) => family === "all" || familyOf(p) === family);
  const shown = fits.find((p) => p.address === choice.address && (!choice.protocol || p.protocol === choice.protocol))
    ?? fits.find(inPackets) ?? fits.find((p) => p.reached) ?? fits[0];
  return { all, shown };
}
