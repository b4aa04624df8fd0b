// The hosts that have joined.
import { agentClient } from "./client.ts";
import type { Agent } from "../gen/agent_pb.ts";
import { allPages, pageSize } from "./pages.ts";
import { resource } from "./resource.ts";

/** All agents, by name. */
export const agents = resource<Agent[]>((last) => ((last?.length ?? 0) > 50 ? 5000 : 2000), (signal) => allPages(async (pageToken) => {
    const page = await agentClient.listAgents({ pageSize, pageToken }, { signal });
    return { items: page.agents, nextPageToken: page.nextPageToken };
  }));
