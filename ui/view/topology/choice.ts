// What the user has chosen, kept in the address: so a link leads to exactly this.
import { familyOf, pairName, type Family } from "../../data/topology.ts";
import type { Path } from "../../gen/topology_pb.ts";
import { refine, type Route } from "../../data/route.ts";

export interface Choice {
  source: string;
  destination: string;
  /** Which path of the pair; empty: the first. */
  address: string;
  protocol: string;
  /** What the colours of edges say. */
  by: "delay" | "loss";
  session: string;
  /** ms since 1970: the path as it was then is shown too. */
  at?: number;
  /** Family of the paths; undefined: that of the address, or the one that there is. */
  family?: Family;
}

/** Reads the choice from the address. */
export function choiceOf({ query }: Route): Choice {
  const [source = "", destination = ""] = (query.get("pair") ?? "").split(">");
  const at = Number(query.get("at"));
  const family = query.get("family");
  return {
    source, destination, address: query.get("address") ?? "", protocol: query.get("protocol") ?? "",
    by: query.get("by") === "loss" ? "loss" : "delay", session: query.get("session") ?? "",
    at: at > 0 && at < 8.64e15 ? at : undefined,
    family: family === "4" || family === "6" || family === "all" ? family : undefined,
  };
}

/** Chooses a pair; without a destination its half waits for the other. */
export function choosePair(source: string, destination: string): void {
  refine({ pair: source || destination ? pairName(source, destination) : undefined, address: undefined, protocol: undefined, at: undefined });
}

/** Chooses one path. */
export function choosePath(path: Pick<Path, "source" | "destination" | "address" | "protocol">, at?: number): void {
  refine({ pair: pairName(path.source, path.destination), address: path.address, protocol: path.protocol, at, family: undefined });
}

/** The family that is shown. */
export function shownFamily(choice: Choice, paths: Path[]): Family {
  if (choice.family) return choice.family;
  if (choice.address) return choice.address.includes(":") ? "6" : "4";
  return paths.length > 0 && paths.every((p) => familyOf(p) === "6") ? "6" : "4";
}

/** The paths of the chosen pair, and which of them is shown: of the family, if there is one. */
export function chosenPaths(choice: Choice, paths: Path[], family: Family): { all: Path[]; shown?: Path } {
  const all = paths.filter((p) => p.source === choice.source && p.destination === choice.destination);
  const fits = all.filter((p) => family === "all" || familyOf(p) === family);
  const shown = fits.find((p) => p.address === choice.address && (!choice.protocol || p.protocol === choice.protocol))
    ?? fits.find((p) => p.reached) ?? fits[0];
  return { all, shown };
}
