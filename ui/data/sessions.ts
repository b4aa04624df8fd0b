// All sessions.
import { sessionClient } from "./client.ts";
import type { Session } from "../gen/session_pb.ts";
import { allPages, pageSize } from "./pages.ts";
import { resource } from "./resource.ts";

const refreshMs = 2000;
const manyRefreshMs = 10_000; // a mesh of 200 hosts has 39,800 pairs
const manyPairs = 2000;

/** All sessions, newest first. */
export const sessions = resource<Session[]>((last) => (pairsOf(last) > manyPairs ? manyRefreshMs : refreshMs), (signal) => allPages(async (pageToken) => {
    const page = await sessionClient.listSessions({ pageSize, pageToken }, { signal });
    return { items: page.sessions, nextPageToken: page.nextPageToken };
  }));

const pairsOf = (all: Session[] = []): number => all.reduce((sum, s) => sum + s.pairs.length, 0);
