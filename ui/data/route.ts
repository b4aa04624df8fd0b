// The route: the part of the address after #, so that a link leads to
// exactly the shown view.
import { computed, signal } from "@preact/signals";

export interface Route {
  /** Words of the path, decoded: #/pair/a/b gives ["pair", "a", "b"]. */
  words: string[];
  /** The query after the question mark. */
  query: URLSearchParams;
}

function read(): Route {
  const text = location.hash.replace(/^#\/?/, "");
  const cut = text.indexOf("?");
  const path = cut < 0 ? text : text.slice(0, cut);
  return {
    words: path.split("/").filter(Boolean).map(decoded),
    query: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)),
  };
}

function decoded(word: string): string {
  try {
    return decodeURIComponent(word);
  } catch {
    return word; // not encoded
  }
}

export const route = signal<Route>(read());
addEventListener("hashchange", () => (route.value = read()));

/** The first word: the view. */
export const place = computed(() => route.value.words[0] ?? "");

type Query = Record<string, string | number | undefined>;

/** The address of a place, for links. */
export function href(words: string[], query: Query = {}): string {
  const set = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined && value !== "") set.set(key, String(value));
  const text = set.toString();
  return `#/${words.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Navigates to a place. */
export function go(words: string[], query: Query = {}): void {
  location.hash = href(words, query);
}

/** Changes the query of this place without a new history entry; undefined removes a key. */
export function refine(changes: Query): void {
  const { words, query } = read();
  const all: Query = Object.fromEntries(query);
  history.replaceState(null, "", href(words, { ...all, ...changes }));
  route.value = read();
}
