// The hosts that have joined.
import { signal } from "@preact/signals";
import { agentClient } from "./client.ts";
import type { Agent } from "../gen/agent_pb.ts";
import { allPages, pageSize } from "./pages.ts";
import { resource } from "./resource.ts";

/** Other hosts, at the ends of pairs that a limited token sees: nothing but their names is visible. */
export const ends = signal<readonly string[]>([]);

/** All agents, by name. */
export const agents = resource<Agent[]>((last) => ((last?.length ?? 0) > 50 ? 5000 : 2000), async (signal) => {
  let named: readonly string[] = [];
  const all = await allPages(async (pageToken) => {
    const page = await agentClient.listAgents({ pageSize, pageToken }, { signal });
    named = [...named, ...page.ends];
    return { items: page.agents, nextPageToken: page.nextPageToken };
  });
  if (!signal.aborted && named.join() !== ends.peek().join()) ends.value = named;
  return all;
});

/** The names of all hosts; undefined before the first answer. */
export const hostNames = (): string[] | undefined => agents.value.value && [...agents.value.value.map((a) => a.name), ...ends.value];
