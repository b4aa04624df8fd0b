// Hosts of the matrix in order, and which of their pairs are measured.
import type { Agent } from "../../gen/agent_pb.ts";
import type { Session } from "../../gen/session_pb.ts";
import { nanos } from "../../data/time.ts";
import type { PairTable } from "../../data/pair-table.ts";

/** States of active sessions. */
const active = new Set(["starting", "running", "degraded"]);

/** Reports whether a session is active. */
export const measures = (s: Session): boolean => active.has(s.state);

/** Natural order of names: h2 before h10. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;

/** Measured pairs by source and destination with the longest row interval, ms. */
export class Measured {
  readonly pairs = new Map<string, Map<string, number>>();
  /** Number of pairs. */
  size = 0;

  constructor(sessions: readonly Session[], only = "") {
    for (const s of sessions) {
      if (!measures(s) || (only && s.spec?.name !== only)) continue;
      const interval = (nanos(s.spec?.interval) ?? 1e9) / 1e6;
      for (const pair of s.pairs) this.add(pair.source, pair.destination, interval);
    }
  }

  /** Interval of a pair in ms; undefined: no session measures it. */
  interval(source: string, destination: string): number | undefined {
    return this.pairs.get(source)?.get(destination);
  }

  private add(source: string, destination: string, interval: number): void {
    let row = this.pairs.get(source);
    if (!row) this.pairs.set(source, (row = new Map()));
    const known = row.get(destination);
    if (known === undefined) this.size++;
    row.set(destination, Math.max(known ?? 0, interval));
  }
}

/** Reports whether every word of a filter is part of a host's name or of a label as key=value. */
export function fits(name: string, labels: Record<string, string>, filter: string): boolean {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = [name, ...Object.entries(labels).map(([key, value]) => (value ? `${key}=${value}` : key))].map((t) => t.toLowerCase());
  return words.every((word) => texts.some((text) => text.includes(word)));
}

/** Hosts in the order of the matrix, with their groups. */
interface Axis {
  names: string[];
  /** Group of each host, if grouped. */
  groups?: string[];
}

export interface Chosen {
  rows: Axis;
  columns: Axis;
  /** Unmeasured hosts that are left out. */
  idle: number;
}

export interface Choice {
  /** Words that hosts have to match. */
  filter: string;
  /** Label by which hosts are grouped; empty: none. */
  group: string;
  /** Include unmeasured hosts. */
  all: boolean;
  /** Hosts of which only pairs are visible: they are shown where they are measured, since no answer says that they are not. */
  ends: readonly string[];
}

/** Up to this number of hosts all are shown, even unmeasured ones. */
export const few = 12;

/** Selects the hosts of the matrix. */
export function choose(agents: readonly Agent[], measured: Measured, table: PairTable, choice: Choice): Chosen {
  const labels = new Map(agents.map((a) => [a.name, a.labels]));
  const known = new Set(agents.filter((a) => a.state !== "revoked").map((a) => a.name));
  const sources = new Set(measured.pairs.keys());
  const destinations = new Set([...measured.pairs.values()].flatMap((row) => [...row.keys()]));
  for (let pair = 0; pair < table.size; pair++) {
    sources.add(table.agents[table.source[pair] ?? 0] ?? "");
    destinations.add(table.agents[table.destination[pair] ?? 0] ?? "");
  }
  const parts = new Set([...sources, ...destinations]);
  const beyond = new Set(choice.ends);
  const every = new Set([...known, ...parts].filter((name) => !beyond.has(name)));
  const whole = choice.all || every.size <= few;
  const axis = (own: Set<string>): Axis => {
    const names = [...new Set([...own, ...(whole ? every : [])])].filter((name) => fits(name, labels.get(name) ?? {}, choice.filter)).sort(byName);
    if (!choice.group) return { names };
    const of = (name: string) => labels.get(name)?.[choice.group] ?? "";
    names.sort((a, b) => byName(of(a) || "\uffff", of(b) || "\uffff") || byName(a, b));
    return { names, groups: names.map(of) };
  };
  return { rows: axis(sources), columns: axis(destinations), idle: whole ? 0 : [...every].filter((name) => !parts.has(name)).length };
}

/** All label keys, sorted. */
export function labelKeys(agents: readonly Agent[]): string[] {
  return [...new Set(agents.flatMap((a) => Object.keys(a.labels)))].sort(byName);
}
