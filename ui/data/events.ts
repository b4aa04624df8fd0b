// Recent events.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { serverClient } from "./client.ts";
import { resource } from "./resource.ts";

const day = 86_400_000;

/** Events of the last day, newest first. */
export const events = resource(2000, async (signal) =>
  (await serverClient.listEvents({ from: timestampFromMs(Date.now() - day), limit: 1000 }, { signal })).events);
