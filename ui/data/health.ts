// Health of the server.
import { serverClient } from "./client.ts";
import { resource } from "./resource.ts";

/** Health of the server and its parts. Each answer costs an archive query, so it is polled slowly. */
export const health = resource(10_000, (signal) => serverClient.health({}, { signal }));

/** Version of the server. */
export const build = resource(60_000, (signal) => serverClient.buildInfo({}, { signal }));
