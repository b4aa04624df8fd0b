// Which hosts the matrix has, in which order, and which of their pairs are measured.
import type { Agent } from "../../gen/agent_pb.ts";
import type { Session } from "../../gen/session_pb.ts";
import { nanos } from "../../data/time.ts";
import type { PairTable } from "../../data/pair-table.ts";

/** States of sessions whose pairs are measured now. */
const active = new Set(["starting", "running", "degraded"]);

/** Reports whether a session measures now. */
export const measures = (s: Session): boolean => active.has(s.state);

/** Natural order of names: h2 before h10. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;

/** Measured pairs: by source, by destination, the longest interval in ms in which figures come. */
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

/** Reports whether a host fits every word of a filter: a part of its name, or of a label as key=value. */
export function fits(name: string, labels: Record<string, string>, filter: string): boolean {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = [name, ...Object.entries(labels).map(([key, value]) => (value ? `${key}=${value}` : key))].map((t) => t.toLowerCase());
  return words.every((word) => texts.some((text) => text.includes(word)));
}

/** Hosts in the order of the matrix, and where groups begin. */
export interface Axis {
  names: string[];
  /** Group of each, where they are grouped. */
  groups?: string[];
}

export interface Chosen {
  rows: Axis;
  columns: Axis;
  /** Hosts that take part in nothing and are left out. */
  idle: number;
}

export interface Choice {
  /** Words that hosts have to fit. */
  filter: string;
  /** Label by which hosts are grouped; empty: by name only. */
  group: string;
  /** Also hosts that take part in nothing. */
  all: boolean;
}

/** With at most so many hosts all are shown, even those that take part in nothing. */
export const few = 12;

/** Chooses the hosts of the matrix. */
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
  const every = new Set([...known, ...parts]);
  const whole = choice.all || every.size <= few;
  const axis = (own: Set<string>): Axis => {
    const names = [...(whole ? every : own)].filter((name) => fits(name, labels.get(name) ?? {}, choice.filter)).sort(byName);
    if (!choice.group) return { names };
    const of = (name: string) => labels.get(name)?.[choice.group] ?? "";
    names.sort((a, b) => byName(of(a) || "\uffff", of(b) || "\uffff") || byName(a, b));
    return { names, groups: names.map(of) };
  };
  return { rows: axis(sources), columns: axis(destinations), idle: whole ? 0 : every.size - parts.size };
}

/** Label keys that some host has, by name. */
export function labelKeys(agents: readonly Agent[]): string[] {
  return [...new Set(agents.flatMap((a) => Object.keys(a.labels)))].sort(byName);
}
