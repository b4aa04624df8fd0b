import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { AgentSchema } from "../gen/agent_pb.ts";
import { labelsByOrigin, replacement, waiting } from "./labels.ts";

const agent = create(AgentSchema, {
  name: "a", state: "connected",
  labels: { site: "office", role: "edge", rack: "7", zone: "1" }, setLabels: { rack: "7", role: "edge" }, approvedLabels: { rack: "6", zone: "1" }, tokenLabels: { rack: "5", site: "office" },
  claimedLabels: { site: "berlin", floor: "2", role: "core", zone: "2" },
});

it("tells the origins of labels apart", () => {
  expect(labelsByOrigin(agent)).toEqual([
    { key: "rack", value: "7", origin: "set" }, { key: "rack", value: "6", origin: "approved", overridden: true }, { key: "rack", value: "5", origin: "token", overridden: true },
    { key: "role", value: "edge", origin: "set" }, { key: "site", value: "office", origin: "token" }, { key: "zone", value: "1", origin: "approved" },
    { key: "floor", value: "2", origin: "claimed" }, { key: "role", value: "core", origin: "claimed" }, { key: "site", value: "berlin", origin: "claimed" }, { key: "zone", value: "2", origin: "claimed" },
  ]);
});

it("says what an approval would replace", () => {
  expect(replacement(agent, "floor")).toBeUndefined();
  expect(replacement(agent, "site")).toBe("site=berlin would replace site=office, which the join token gave.");
  expect(replacement(agent, "zone")).toBe("zone=2 would replace zone=1, which an operator approved.");
  expect(replacement(agent, "role")).toBe("An operator set role=edge, which takes precedence over role=core until it is removed.");
});

it("counts what waits for approval", () => {
  expect(waiting(agent)).toBe(4);
  expect(waiting({ ...agent, state: "revoked" })).toBe(0);
});
