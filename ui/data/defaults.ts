// The defaults of specifications, which the server completes.
import { sessionClient } from "./client.ts";
import { resource } from "./resource.ts";

/** A specification with nothing but defaults. */
export const defaults = resource(3600e3, async (signal) => (await sessionClient.planSession({ spec: {} }, { signal })).spec);
