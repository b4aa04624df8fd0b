// Whether the server itself is well.
import { serverClient } from "./client.ts";
import { resource } from "./resource.ts";

/** State of the server and of its parts. The answer costs a question to the archive, so it is asked for seldom. */
export const health = resource(10_000, (signal) => serverClient.health({}, { signal }));

/** Version of the server. */
export const build = resource(60_000, (signal) => serverClient.buildInfo({}, { signal }));
