// The hosts that have joined.
import { agentClient } from "./client.ts";
import type { Agent } from "../gen/agent_pb.ts";
import { resource } from "./resource.ts";

/** All agents, by name. */
export const agents = resource<Agent[]>((last) => ((last?.length ?? 0) > 50 ? 5000 : 2000), async (signal) => (await agentClient.listAgents({}, { signal })).agents);
