// Measurements, running, planned and past.
import { sessionClient } from "./client.ts";
import { resource } from "./resource.ts";

/** All sessions, newest first. */
export const sessions = resource(2000, async (signal) => (await sessionClient.listSessions({}, { signal })).sessions);
