// The labels of a host by their origin, and what may be approved.
import { agentClient } from "./client.ts";
import { agents } from "./agents.ts";
import type { Agent } from "../gen/agent_pb.ts";

/** Where a label comes from, the later before the earlier: set or approved by an operator, given by the join token, or claimed by the agent alone. */
export type Origin = "set" | "approved" | "token" | "claimed";

/** One label of a host. */
export interface Label {
  key: string;
  value: string;
  origin: Origin;
  /** Sessions do not select the host by this label, since another origin takes precedence. */
  overridden?: boolean;
}

type Labelled = Pick<Agent, "labels" | "setLabels" | "approvedLabels" | "tokenLabels" | "claimedLabels">;

const byKey = <T>([a]: [string, T], [b]: [string, T]): number => (a < b ? -1 : a > b ? 1 : 0);

/** All labels: those that sessions select by with those that they override, then those that wait for approval. */
export function labelsByOrigin(agent: Labelled): Label[] {
  const sources: [Origin, Labelled["labels"]][] = [["set", agent.setLabels], ["approved", agent.approvedLabels], ["token", agent.tokenLabels]];
  const all = Object.entries(agent.labels).sort(byKey).flatMap(([key]) => sources
    .filter(([, labels]) => labels[key] !== undefined)
    .map(([origin, labels], i): Label => ({ key, value: labels[key] ?? "", origin, ...(i > 0 && { overridden: true }) })));
  return [...all, ...Object.entries(agent.claimedLabels).sort(byKey).map(([key, value]): Label => ({ key, value, origin: "claimed" }))];
}

/** A label as text. */
export const labelText = ({ key, value }: { key: string; value: string }): string => (value ? `${key}=${value}` : key);

/** How many labels of a host wait for approval; labels of a revoked host wait for nothing. */
export const waiting = (agent: Labelled & Pick<Agent, "state">): number => (agent.state === "revoked" ? 0 : Object.keys(agent.claimedLabels).length);

/** What approving a claimed label would do to a label of the same key; undefined: there is none. */
export function replacement(agent: Labelled, key: string): string | undefined {
  const [claimed, now] = [agent.claimedLabels[key], agent.labels[key]];
  if (claimed === undefined || now === undefined) return undefined;
  const [next, before] = [labelText({ key, value: claimed }), labelText({ key, value: now })];
  if (agent.setLabels[key] !== undefined) return `An operator set ${before}, which takes precedence over ${next} until it is removed.`;
  return `${next} would replace ${before}, ${agent.approvedLabels[key] !== undefined ? "which an operator approved" : "which the join token gave"}.`;
}

/** Approves labels and addresses, or withdraws approvals by key or address. */
export async function approve(name: string, what: { labels?: Record<string, string>; addresses?: string[]; withdraw?: string[] }): Promise<void> {
  await agentClient.approveAgent({ name, ...what });
  await agents.refresh();
}
