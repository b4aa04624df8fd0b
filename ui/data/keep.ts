// Form input, kept across reloads until the tab is closed.
import { store, stored } from "./store.ts";

const key = (name: string): string => `pillion.form.${name}`;

/** The value stored under a name, if any. */
export function kept<T>(name: string): T | undefined {
  try {
    return JSON.parse(stored("tab", key(name)) ?? "") as T;
  } catch {
    return undefined; // there is none, or it has another version
  }
}

/** Stores a value under a name; undefined deletes it. */
export const keep = (name: string, value: unknown): void => store("tab", key(name), value === undefined ? undefined : JSON.stringify(value));
