// The tokens by which people and hosts are known. Only admins may ask.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { serverClient } from "./client.ts";
import { resource } from "./resource.ts";
import { millis } from "./time.ts";
import type { Token } from "../gen/server_pb.ts";

/** All tokens, by name. */
export const tokens = resource(10_000, async (signal) => (await serverClient.listTokens({}, { signal })).tokens);

/** Roles of tokens, and what each may do. */
export const roles = [
  { key: "viewer", may: "reads everything, changes nothing" },
  { key: "operator", may: "besides, runs sessions, labels hosts and traces paths" },
  { key: "admin", may: "besides, makes and revokes tokens, and revokes hosts" },
  { key: "join", may: "only lets hosts join; of no use for this page" },
] as const;

/** How long a new token may last, in days; 0: for ever. */
export const lengths = [
  { days: 1, label: "1 day" }, { days: 7, label: "7 days" }, { days: 30, label: "30 days" }, { days: 90, label: "90 days" }, { days: 365, label: "1 year" }, { days: 0, label: "Never" },
] as const;

/** Makes a token and gives its secret, which nobody can ask for again. */
export async function createToken(name: string, role: string, days: number, now = Date.now()): Promise<string> {
  const expires = days > 0 ? timestampFromMs(now + days * 86_400_000) : undefined;
  const { secret } = await serverClient.createToken({ name, role, expires });
  await tokens.refresh();
  return secret;
}

/** Ends a token. */
export async function revokeToken(name: string): Promise<void> {
  await serverClient.revokeToken({ name });
  await tokens.refresh();
}

/** Whether a token counts: valid, expired or revoked. */
export function stateOf(token: Token, now = Date.now()): "valid" | "expired" | "revoked" {
  if (token.revoked) return "revoked";
  const end = millis(token.expires);
  return end !== undefined && end <= now ? "expired" : "valid";
}
