// Form input, kept across reloads until the tab is closed.

/** The value stored under a name, if any. */
export function kept<T>(name: string): T | undefined {
  try {
    const text = sessionStorage.getItem(`pillion.form.${name}`);
    return text === null ? undefined : (JSON.parse(text) as T);
  } catch {
    return undefined; // storage is disabled, or has another version
  }
}

/** Stores a value under a name; undefined deletes it. */
export function keep(name: string, value: unknown): void {
  try {
    if (value === undefined) sessionStorage.removeItem(`pillion.form.${name}`);
    else sessionStorage.setItem(`pillion.form.${name}`, JSON.stringify(value));
  } catch {
    // as above: lost with a reload
  }
}
