// Agent selectors of a specification.
import type { Agent } from "../gen/agent_pb.ts";

/** The agents that a selector matches: a name, a label, or * for all. As on the server. */
export function selected(selector: string, agents: readonly Agent[]): Agent[] {
  const there = agents.filter((a) => a.state !== "revoked");
  if (selector === "*") return there;
  const cut = selector.indexOf("=");
  if (cut >= 0) {
    const [key, value] = [selector.slice(0, cut), selector.slice(cut + 1)];
    return there.filter((a) => a.labels[key] === value);
  }
  const named = there.find((a) => a.name === selector);
  return named ? [named] : there.filter((a) => selector in a.labels);
}

/** A selector and the agents that it matches now. */
interface Option {
  selector: string;
  kind: "all" | "agent" | "label";
  agents: string[];
}

/** All useful selectors: *, each agent, each label with a value, each label with any value. */
export function options(agents: readonly Agent[]): Option[] {
  const there = agents.filter((a) => a.state !== "revoked");
  const names = new Set(there.map((a) => a.name));
  const pairs = new Set(there.flatMap((a) => Object.entries(a.labels).map(([k, v]) => `${k}=${v}`)));
  const keys = new Set(there.flatMap((a) => Object.keys(a.labels)).filter((k) => !names.has(k)));
  const option = (selector: string, kind: Option["kind"]): Option => ({ selector, kind, agents: selected(selector, there).map((a) => a.name) });
  return [
    option("*", "all"),
    ...[...names].map((n) => option(n, "agent")),
    ...[...pairs].sort().map((p) => option(p, "label")),
    ...[...keys].sort().map((k) => option(k, "label")),
  ];
}
