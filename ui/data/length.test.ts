import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parseSpan, spanMessage, spanText, spanWords } from "./length.ts";
import { bytes, duration, unbroken } from "./quantity.ts";

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

it.each([[0, "0 s"], [1e9, "1 s"], [90e9, "1 min 30 s"], [250e3, "250 µs"], [28800e9, "8 h"]])("writes %d ns in a sentence as %s", (ns, text) => {
  expect(spanWords(ns).replaceAll("\u00a0", " ")).toBe(text);
});

it("keeps numbers on one line with their units", () => {
  expect(unbroken("lost 2.5 % (24 of 975 packets) in 10 s, 3 sessions, 1.5 Mbit/s, 2 seconds").replaceAll("\u00a0", "~")).toBe("lost 2.5~% (24 of 975~packets) in 10~s, 3 sessions, 1.5~Mbit/s, 2 seconds");
});

it("makes messages, also below zero", () => {
  expect(spanMessage(1.5e9)).toMatchObject({ seconds: 1n, nanos: 5e8 });
  expect(spanMessage(-1e9)).toMatchObject({ seconds: -1n, nanos: 0 });
});
