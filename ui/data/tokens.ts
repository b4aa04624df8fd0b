// Tokens of users and hosts, for admins only.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { serverClient } from "./client.ts";
import { allPages, pageSize } from "./pages.ts";
import { resource } from "./resource.ts";
import { millis } from "./time.ts";
import type { Token } from "../gen/server_pb.ts";

/** All tokens, by name. */
export const tokens = resource(10_000, (signal) => allPages(async (pageToken) => {
    const page = await serverClient.listTokens({ pageSize, pageToken }, { signal });
    return { items: page.tokens, nextPageToken: page.nextPageToken };
  }));

/** Roles of tokens and what they allow. */
export const roles = [
  { key: "viewer", may: "A viewer may read measurements, but not run SQL or change anything." },
  { key: "analyst", may: "An analyst may read measurements and run SQL, but not change anything." },
  { key: "operator", may: "An operator may also run sessions, label and approve hosts, and trace paths." },
  { key: "admin", may: "An admin may also manage tokens, and revoke and delete hosts." },
  { key: "join", may: "A join token only lets hosts join; nobody can sign in with it. Labels given here count as approved: sessions select the hosts by them." },
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

/** What a join token permits and gives, in words; undefined for other tokens. */
export function boundsOf(token: Token): { hosts: string; names: string; labels: string } | undefined {
  if (token.role !== "join") return undefined;
  const labels = Object.entries(token.labels).map(([key, value]) => (value ? `${key}=${value}` : key)).sort();
  return { hosts: token.maxUses > 0 ? `${token.uses} of ${token.maxUses}` : `${token.uses}, no limit`, names: token.agents || "any", labels: labels.join(", ") || "none" };
}
