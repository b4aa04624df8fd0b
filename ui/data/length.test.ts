import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parseSpan, spanMessage, spanText } from "./length.ts";
import { bytes, duration } from "./quantity.ts";

interface Vectors {
  durations: { text: string; ns?: number; written?: string }[];
  nanos: { ns: number; shown: string }[];
  bytes: { bytes: number; shown: string }[];
}

// The Go package internal/quantity is tested with the same vectors.
const vectors = JSON.parse(readFileSync("../internal/quantity/testdata/quantities.json", "utf8")) as Vectors;

it.each(vectors.durations)("reads the duration $text", ({ text, ns, written }) => {
  expect(parseSpan(text)).toBe(ns);
  if (ns !== undefined) expect(spanText(ns)).toBe(written);
});

it.each(vectors.nanos)("shows $ns ns as $shown", ({ ns, shown }) => expect(duration(ns)).toBe(shown));

it.each(vectors.bytes)("shows $bytes bytes as $shown", ({ bytes: n, shown }) => expect(bytes(n)).toBe(shown));

it("makes messages, also below zero", () => {
  expect(spanMessage(1.5e9)).toMatchObject({ seconds: 1n, nanos: 5e8 });
  expect(spanMessage(-1e9)).toMatchObject({ seconds: -1n, nanos: 0 });
});
