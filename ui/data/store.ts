// What the browser keeps: across visits, or until the tab is closed. Where storage is
// disabled, nothing outlives the page.

const areas = { visits: () => localStorage, tab: () => sessionStorage };
export type Area = keyof typeof areas;

/** The text stored under a key, if any. */
export function stored(area: Area, key: string): string | undefined {
  try {
    return areas[area]().getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Stores a text under a key; undefined deletes it. */
export function store(area: Area, key: string, text: string | undefined): void {
  try {
    if (text === undefined) areas[area]().removeItem(key);
    else areas[area]().setItem(key, text);
  } catch {
    // as above
  }
}
