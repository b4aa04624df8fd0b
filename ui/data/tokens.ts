// Tokens of users and hosts, for admins only.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { serverClient } from "./client.ts";
import { resource } from "./resource.ts";
import { millis } from "./time.ts";
import type { Token } from "../gen/server_pb.ts";

/** All tokens, by name. */
export const tokens = resource(10_000, async (signal) => (await serverClient.listTokens({}, { signal })).tokens);

/** Roles of tokens and what they allow. */
export const roles = [
  { key: "viewer", may: "allows reading everything" },
  { key: "operator", may: "also allows running sessions, labelling hosts and tracing paths" },
  { key: "admin", may: "also allows managing tokens and revoking hosts" },
  { key: "join", may: "only allows hosts to join; it cannot sign in here" },
] as const;

/** Lifetimes of new tokens, days; 0: unlimited. */
export const lengths = [
  { days: 1, label: "1 day" }, { days: 7, label: "7 days" }, { days: 30, label: "30 days" }, { days: 90, label: "90 days" }, { days: 365, label: "1 year" }, { days: 0, label: "Never" },
] as const;

/** Creates a token and returns its secret, which cannot be retrieved again. */
export async function createToken(name: string, role: string, days: number, now = Date.now()): Promise<string> {
  const expires = days > 0 ? timestampFromMs(now + days * 86_400_000) : undefined;
  const { secret } = await serverClient.createToken({ name, role, expires });
  await tokens.refresh();
  return secret;
}

/** Revokes a token. */
export async function revokeToken(name: string): Promise<void> {
  await serverClient.revokeToken({ name });
  await tokens.refresh();
}

/** The state of a token. */
export function stateOf(token: Token, now = Date.now()): "valid" | "expired" | "revoked" {
  if (token.revoked) return "revoked";
  const end = millis(token.expires);
  return end !== undefined && end <= now ? "expired" : "valid";
}
