import { expect, it } from "vitest";
import { emptyFilter, filterRow, filterText, filterWords } from "./filter.ts";

it.each(["proto=tcp dport=443", "src=10.0.0.0/8 dst=2001:db8::/32 proto=17 sport=1 dport=2", ""])("row and text of %j", (text) => {
  expect(filterText(filterRow(text) ?? emptyFilter())).toBe(text);
});
it.each(["dport=1 dport=2", "443", "port=443"])("has no row for %j", (text) => expect(filterRow(text)).toBeUndefined());
it("describes a filter", () => {
  expect(filterWords("proto=tcp dport=443")).toBe("TCP to port 443");
  expect(filterWords("src=10.0.0.0/8 sport=53 proto=47")).toBe("protocol 47 from 10.0.0.0/8 port 53");
  expect(filterWords("dst=10.0.0.1")).toBe("any protocol to 10.0.0.1");
});
