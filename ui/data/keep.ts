// What was typed into a form, kept over a reload of the page, until the tab is closed.

/** The text that was kept under a name; undefined for none. */
export function kept<T>(name: string): T | undefined {
  try {
    const text = sessionStorage.getItem(`pillion.form.${name}`);
    return text === null ? undefined : (JSON.parse(text) as T);
  } catch {
    return undefined; // storage is off, or of another version
  }
}

/** Keeps a value under a name; undefined forgets it. */
export function keep(name: string, value: unknown): void {
  try {
    if (value === undefined) sessionStorage.removeItem(`pillion.form.${name}`);
    else sessionStorage.setItem(`pillion.form.${name}`, JSON.stringify(value));
  } catch {
    // as above: then a reload loses it
  }
}
