import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { AgentSchema } from "../gen/agent_pb.ts";
import { labelsByOrigin, replacement, setLabels, waiting } from "./labels.ts";

const agent = create(AgentSchema, {
  name: "a", state: "connected",
  labels: { site: "office", role: "edge", rack: "7" }, approvedLabels: { site: "office", rack: "6" }, claimedLabels: { site: "berlin", floor: "2", role: "core" },
});

it("tells the origins of labels apart", () => {
  expect(labelsByOrigin(agent)).toEqual([
    { key: "rack", value: "7", origin: "set" }, { key: "rack", value: "6", origin: "approved", overridden: true },
    { key: "role", value: "edge", origin: "set" }, { key: "site", value: "office", origin: "approved" },
    { key: "floor", value: "2", origin: "claimed" }, { key: "role", value: "core", origin: "claimed" }, { key: "site", value: "berlin", origin: "claimed" },
  ]);
  expect(setLabels(agent)).toEqual({ rack: "7", role: "edge" });
});

it("says what an approval would replace", () => {
  expect(replacement(agent, "floor")).toBeUndefined();
  expect(replacement(agent, "site")).toBe("site=berlin would replace site=office, which an operator or the join token approved.");
  expect(replacement(agent, "role")).toBe("An operator set role=edge, which takes precedence over role=core until it is removed.");
});

it("counts what waits for approval", () => {
  expect(waiting(agent)).toBe(3);
  expect(waiting({ ...agent, state: "revoked" })).toBe(0);
});
