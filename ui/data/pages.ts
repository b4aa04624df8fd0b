// Lists that the server returns in pages.

/** Items of a page at most. */
export const pageSize = 1000;

/** All items of a list; `request` returns a page by the token of the page before. */
export async function allPages<T>(request: (pageToken: string) => Promise<{ items: T[]; nextPageToken: string }>): Promise<T[]> {
  const all: T[] = [];
  for (let token = ""; ; ) {
    const page = await request(token);
    all.push(...page.items);
    if (!page.nextPageToken) return all;
    token = page.nextPageToken;
  }
}
