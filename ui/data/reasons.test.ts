import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ReasonSchema } from "../gen/session_pb.ts";
import { cause, faults } from "./reasons.ts";

test("faults are listed once, the most important first", () => {
  const reason = (where: string, name: string, level: string) => create(ReasonSchema, { where, name, level, found: name });
  const all = [reason("a", "agent", "ok"), reason("a", "version", "warning"), reason("a > b", "marks", "error"), reason("a", "version", "warning"), reason("b", "version", "warning")];
  expect(faults(all).map((r) => `${r.where} ${r.name}`)).toEqual(["a > b marks", "a version", "b version"]);
  const rest = [reason("a and b", "clocks", "warning"), reason("a > b", "session", "warning")];
  expect(faults(rest).map((r) => r.name)).toEqual(["session", "clocks"]);
  expect(cause(rest)?.name).toBe("session");
  expect(cause(rest.slice(0, 1))).toBeUndefined();
});
