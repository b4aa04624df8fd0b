// Empty states of the overview.
import { render } from "preact";
import { expect, test } from "vitest";
import { NoAgents } from "./empty.tsx";

test.each([
  ["noc.example", "noc.example:8470", "--server noc.example:8470 ", false],
  ["192.0.2.1", "192.0.2.1:9000", "--server 192.0.2.1:9000 ", false],
  ["[2001:db8::1]", "[2001:db8::1]:8470", "--server [2001:db8::1]:8470 ", false],
  ["noc.example", "noc.example", "--server noc.example ", false],
  ["localhost.example", "localhost.example:8470", "--server localhost.example:8470 ", false],
  ["localhost", "localhost:8470", "--server ADDRESS ", true],
  ["127.0.0.1", "127.0.0.1:8470", "--server ADDRESS ", true],
  ["[::1]", "[::1]:8470", "--server ADDRESS ", true],
])("hosts join the address by which the page at %s was reached", (hostname, host, want, replace) => {
  const box = document.createElement("div");
  render(<NoAgents at={{ hostname, host }} />, box);
  expect(box.querySelector("code")?.textContent).toContain(want);
  expect(box.textContent?.includes("Replace ADDRESS")).toBe(replace);
});
