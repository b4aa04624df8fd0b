// Who uses the page: the token, and what its role allows.
import { computed, signal } from "@preact/signals";

const key = "pillion.token";

export type Role = "viewer" | "operator" | "admin";

const stored = (): string | undefined => {
  try {
    return sessionStorage.getItem(key) ?? localStorage.getItem(key) ?? undefined;
  } catch {
    return undefined; // storage is switched off: the token lasts as long as the page
  }
};

/** The token that calls carry; undefined before signing in. */
export const token = signal<string | undefined>(stored());

/** Name and role of the token; undefined until the server has said. */
export const who = signal<{ name: string; role: Role } | undefined>(undefined);

/** Why the user has to sign in again. */
export const refusal = signal<string | undefined>(undefined);

const rank: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 };

/** Reports whether the token's role allows what that role allows. */
export function may(role: Role): boolean {
  const mine = who.value?.role;
  return mine !== undefined && rank[mine] >= rank[role];
}

/** True for operators and admins: the ones who see buttons that change something. */
export const operates = computed(() => may("operator"));

/** Keeps a token that the server knows; on this device, or until the browser closes. */
export function signIn(secret: string, name: string, role: Role, remember: boolean): void {
  try {
    localStorage.removeItem(key);
    sessionStorage.setItem(key, secret);
    if (remember) localStorage.setItem(key, secret);
  } catch {
    // as above
  }
  refusal.value = undefined;
  who.value = { name, role };
  token.value = secret;
}

/** Forgets the token. */
export function signOut(why?: string): void {
  try {
    sessionStorage.removeItem(key);
    localStorage.removeItem(key);
  } catch {
    // as above
  }
  token.value = undefined;
  who.value = undefined;
  refusal.value = why;
}

/** The server no longer knows the token: ended, expired, or another server. */
export function refused(why: string): void {
  if (token.peek() !== undefined) signOut(why);
}
