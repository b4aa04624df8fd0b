// The labels of a host by their origin, and what may be approved.
import { agentClient } from "./client.ts";
import { agents } from "./agents.ts";
import type { Agent } from "../gen/agent_pb.ts";

/** Where a label comes from: set by an operator, approved (by an operator or by the join token), or claimed by the agent alone. */
export type Origin = "set" | "approved" | "claimed";

/** One label of a host. */
export interface Label {
  key: string;
  value: string;
  origin: Origin;
  /** Sessions do not select the host by this label, since an operator set another value. */
  overridden?: boolean;
}

type Labelled = Pick<Agent, "labels" | "approvedLabels" | "claimedLabels">;

const byKey = ([a]: [string, string], [b]: [string, string]): number => (a < b ? -1 : a > b ? 1 : 0);

/** All labels: those that sessions select by, then those that wait for approval. */
export function labelsByOrigin(agent: Labelled): Label[] {
  const all: Label[] = [];
  for (const [key, value] of Object.entries(agent.labels).sort(byKey)) {
    const approved = agent.approvedLabels[key];
    if (approved === value) all.push({ key, value, origin: "approved" });
    else {
      all.push({ key, value, origin: "set" });
      if (approved !== undefined) all.push({ key, value: approved, origin: "approved", overridden: true });
    }
  }
  return [...all, ...Object.entries(agent.claimedLabels).sort(byKey).map(([key, value]): Label => ({ key, value, origin: "claimed" }))];
}

/** A label as text. */
export const labelText = ({ key, value }: { key: string; value: string }): string => (value ? `${key}=${value}` : key);

/** How many labels of a host wait for approval; those of a revoked host wait for nothing. */
export const waiting = (agent: Labelled & Pick<Agent, "state">): number => (agent.state === "revoked" ? 0 : Object.keys(agent.claimedLabels).length);

/** What approving a claimed label would do to a label of the same key; undefined: there is none. */
export function replacement(agent: Labelled, key: string): string | undefined {
  const [claimed, now, approved] = [agent.claimedLabels[key], agent.labels[key], agent.approvedLabels[key]];
  if (claimed === undefined || now === undefined) return undefined;
  const [next, before] = [labelText({ key, value: claimed }), labelText({ key, value: now })];
  if (now === approved) return `${next} would replace ${before}, which an operator or the join token approved.`;
  return `An operator set ${before}, which takes precedence over ${next} until it is removed.`;
}

/** The labels that an operator set, as KEY=VALUE; approved ones with the same value need not be set. */
export const setLabels = (agent: Labelled): Record<string, string> =>
  Object.fromEntries(labelsByOrigin(agent).filter((l) => l.origin === "set").map((l) => [l.key, l.value]));

/** Approves labels and addresses, or withdraws approvals by key or address. */
export async function approve(name: string, what: { labels?: Record<string, string>; addresses?: string[]; withdraw?: string[] }): Promise<void> {
  await agentClient.approveAgent({ name, ...what });
  await agents.refresh();
}
