// The signed-in token and the permissions of its role.
import { computed, signal } from "@preact/signals";
import { store, stored } from "./store.ts";

const key = "pillion.token";

export type Role = "viewer" | "analyst" | "operator" | "admin";

/** The token sent with calls; undefined before signing in. */
export const token = signal(stored("tab", key) ?? stored("visits", key));

/** The signed-in token. */
interface Who {
  name: string;
  role: Role;
  /** Selectors of the hosts and pairs that it sees; none: it sees everything. */
  scope: readonly string[];
}

/** The token; undefined until the server has answered. */
export const who = signal<Who | undefined>(undefined);

/** True for tokens that see a part of the hosts: what is not in an answer may exist. */
export const limited = computed(() => (who.value?.scope.length ?? 0) > 0);

/** Why the user has to sign in again. */
export const refusal = signal<string | undefined>(undefined);

const rank: Record<Role, number> = { viewer: 0, analyst: 1, operator: 2, admin: 3 };

/** Reports whether the token has at least a role. */
export function may(role: Role): boolean {
  const mine = who.value?.role;
  return mine !== undefined && rank[mine] >= rank[role];
}

/** True for operators and admins, who see buttons for changes. */
export const operates = computed(() => may("operator"));

/** Stores a valid token on this device, or until the browser is closed. */
export function signIn(secret: string, me: Who, remember: boolean): void {
  store("tab", key, secret);
  store("visits", key, remember ? secret : undefined);
  refusal.value = undefined;
  who.value = me;
  token.value = secret;
}

/** Deletes the token. */
export function signOut(why?: string): void {
  store("tab", key, undefined);
  store("visits", key, undefined);
  token.value = undefined;
  who.value = undefined;
  refusal.value = why;
}

/** Signs out because the server rejected the token. */
export function refused(why: string): void {
  if (token.peek() !== undefined) signOut(why);
}
