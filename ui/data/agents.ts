// The hosts that have joined.
import { agentClient } from "./client.ts";
import { resource } from "./resource.ts";

/** All agents, by name. */
export const agents = resource(2000, async (signal) => (await agentClient.listAgents({}, { signal })).agents);
