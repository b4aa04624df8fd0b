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
  { key: "analyst", may: "also allows SQL queries" },
  { key: "operator", may: "also allows running sessions, labelling hosts and tracing paths" },
  { key: "admin", may: "also allows managing tokens and revoking hosts" },
  { key: "join", may: "only allows hosts to join; it cannot sign in here" },
] as const;

/** Lifetimes of new tokens, days; 0: unlimited. */
export const lengths = [
  { days: 1, label: "1 day" }, { days: 7, label: "7 days" }, { days: 30, label: "30 days" }, { days: 90, label: "90 days" }, { days: 365, label: "1 year" }, { days: 0, label: "Never" },
] as const;

/** What a join token permits and gives. */
export interface JoinBounds {
  /** How many hosts may join; 0: any number. */
  uses: number;
  /** Name of the only agent, or a pattern; empty: any. */
  agents: string;
  /** Labels that agents get, as KEY=VALUE separated by spaces. */
  labels: string;
}

/** Creates a token and returns its secret, which cannot be retrieved again. */
export async function createToken(name: string, role: string, days: number, bounds?: JoinBounds, now = Date.now()): Promise<string> {
  const expires = days > 0 ? timestampFromMs(now + days * 86_400_000) : undefined;
  const join = role === "join" && bounds ? { maxUses: bounds.uses, agents: bounds.agents.trim(), labels: labelsOf(bounds.labels), neverExpires: days === 0 } : {};
  const { secret } = await serverClient.createToken({ name, role, expires, ...join });
  await tokens.refresh();
  return secret;
}

/** Revokes a token. */
export async function revokeToken(name: string): Promise<void> {
  await serverClient.revokeToken({ name });
  await tokens.refresh();
}

/** Labels written as KEY=VALUE, separated by spaces. */
export function labelsOf(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const word of text.split(/\s+/)) {
    if (!word) continue;
    const at = word.indexOf("=");
    if (at <= 0) throw new Error(`${word} is not KEY=VALUE`);
    labels[word.slice(0, at)] = word.slice(at + 1);
  }
  return labels;
}

/** The state of a token. */
export function stateOf(token: Token, now = Date.now()): "valid" | "used up" | "expired" | "revoked" {
  if (token.revoked) return "revoked";
  const end = millis(token.expires);
  if (end !== undefined && end <= now) return "expired";
  return token.maxUses > 0 && token.uses >= token.maxUses ? "used up" : "valid";
}

/** What a join token permits, in words; empty for other tokens. */
export function boundsOf(token: Token): string {
  if (token.role !== "join") return "";
  const labels = Object.entries(token.labels).map(([key, value]) => `${key}=${value}`).sort();
  return [token.maxUses > 0 ? `${token.uses} of ${token.maxUses}` : `${token.uses}`, token.agents, ...labels].filter(Boolean).join(", ");
}
