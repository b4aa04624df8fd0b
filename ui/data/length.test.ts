import { expect, it } from "vitest";
import { parseSpan, spanMessage, spanText } from "./length.ts";

it.each([
  ["500ms", 5e8], ["1s", 1e9], ["1h30m", 5.4e12], ["7d", 6.048e14], ["1w", 6.048e14], ["1.5s", 1.5e9], ["100us", 1e5], ["1m 30s", 9e10], ["0", 0],
])("reads %s", (text, ns) => expect(parseSpan(text)).toBe(ns));

it.each(["", "5", "1x", "s", "-1s", "1h-5m", "99999999999d"])("refuses %j", (text) => expect(parseSpan(text)).toBeUndefined());

it.each(["1s", "1m30s", "7d", "1d12h", "500ms", "1s500ms", "100us", "0s"])("writes %s as it was read", (text) => expect(spanText(parseSpan(text === "0s" ? "0" : text) ?? -1)).toBe(text));

it("makes messages, also below zero", () => {
  expect(spanMessage(1.5e9)).toMatchObject({ seconds: 1n, nanos: 5e8 });
  expect(spanMessage(-1e9)).toMatchObject({ seconds: -1n, nanos: 0 });
});
