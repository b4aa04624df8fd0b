import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { ReasonSchema } from "../gen/session_pb.ts";
import { faults } from "./reasons.ts";

test("faults are listed once, errors first", () => {
  const reason = (where: string, name: string, level: string) => create(ReasonSchema, { where, name, level, found: name });
  const all = [reason("a", "agent", "ok"), reason("a", "version", "warning"), reason("a > b", "marks", "error"), reason("a", "version", "warning"), reason("b", "version", "warning")];
  expect(faults(all).map((r) => `${r.where} ${r.name}`)).toEqual(["a > b marks", "a version", "b version"]);
});
