import { expect, test } from "vitest";
import { allPages } from "./pages.ts";

test("all pages are requested in order", async () => {
  const pages: Record<string, { items: number[]; nextPageToken: string }> = { "": { items: [1, 2], nextPageToken: "a" }, a: { items: [], nextPageToken: "b" }, b: { items: [3], nextPageToken: "" } };
  expect(await allPages(async (token) => pages[token]!)).toEqual([1, 2, 3]);
});
