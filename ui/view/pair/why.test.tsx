import { create } from "@bufbuild/protobuf";
import { render } from "preact";
import { expect, test } from "vitest";
import { route } from "../../data/route.ts";
import { ReasonSchema, type Reason } from "../../gen/session_pb.ts";
import { missingWords, Why } from "./why.tsx";

const reason = (fields: Partial<Reason>): Reason => create(ReasonSchema, { where: "a > b", name: "session", level: "warning", found: "no session measures it", advice: "create one", ...fields } as Reason);

function shown(...lists: (Reason[] | undefined)[]): string {
  route.value = { words: ["pair", "a", "b"], query: new URLSearchParams() };
  const root = document.createElement("div");
  render(<Why source="a" destination="b" explained={lists.map((reasons) => ({ reasons }))} onRetry={() => {}} />, root);
  return root.textContent ?? "";
}

test("a pair without data shows what the server finds, in both directions", () => {
  const text = shown([reason({}), reason({ name: "agent", level: "error", where: "b", found: "away", agent: "b" })], [reason({ where: "b > a", session: "web", found: "session web is paused" })]);
  expect(text).toContain("a > b: session no session measures it");
  expect(text).toContain("b > a: session session web is paused");
  expect(text.indexOf("b: agent away")).toBeLessThan(text.indexOf("a > b: session"));
  for (const action of ["Session web", "Host b", "Show the last 24 h"]) expect(text).toContain(action);
});

test("it waits for both directions, and says when nothing is wrong", () => {
  expect(shown([reason({})], undefined)).toContain("Loading");
  expect(shown([reason({ level: "ok" })], [])).toContain("Marked packets arrive now.");
});

test("why one direction is empty", () => {
  expect(missingWords({ reasons: [reason({})] }, "a", "b")).toBe("a > b: no session measures it.");
  expect(missingWords({ reasons: [] }, "a", "b")).toBe("No packets from a to b in this period.");
  expect(missingWords({}, "a", "b")).toBeUndefined();
});
