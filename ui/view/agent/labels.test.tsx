// Labels of a host: their origins, and what operators can do with them.
import { create } from "@bufbuild/protobuf";
import { render } from "preact";
import { beforeEach, expect, test, vi } from "vitest";
import { who } from "../../data/account.ts";
import { agents } from "../../data/agents.ts";
import { agentClient } from "../../data/client.ts";
import { AgentSchema, ApproveAgentResponseSchema } from "../../gen/agent_pb.ts";
import { AddressesPanel } from "./addresses.tsx";
import { LabelsPanel } from "./labels.tsx";

const agent = create(AgentSchema, {
  name: "a", state: "connected", labels: { site: "office", role: "edge", rack: "7" }, setLabels: { role: "edge" }, approvedLabels: { site: "office" }, tokenLabels: { rack: "7" }, claimedLabels: { site: "berlin", floor: "2" },
  approvedAddresses: ["10.0.0.0/24"], addressConflicts: [{ address: "10.0.0.7", agent: "b" }],
});
let box: HTMLElement;
const calls: unknown[] = [];
beforeEach(() => {
  box = document.body.appendChild(document.createElement("div"));
  calls.length = 0;
  who.value = { name: "desk", role: "operator", scope: [] };
  vi.spyOn(agents, "refresh").mockResolvedValue();
  vi.spyOn(agentClient, "approveAgent").mockImplementation((request) => {
    calls.push(request);
    return Promise.resolve(create(ApproveAgentResponseSchema));
  });
});
const button = (name: string, within: ParentNode = box) => [...within.querySelectorAll("button")].find((b) => (b.getAttribute("aria-label") ?? b.textContent) === name);
const click = async (name: string, within: ParentNode = box) => {
  button(name, within)?.click();
  await new Promise((done) => setTimeout(done, 20));
};

test("origins differ, and one label is approved at a time", async () => {
  render(<LabelsPanel agent={agent} />, box);
  expect([...box.querySelectorAll(".label")].map((l) => `${l.className}: ${l.textContent}`)).toEqual(["label token: rack=7", "label set: role=edge", "label approved: site=office", "label claimed: floor=2", "label claimed: site=berlin"]);
  expect(box.textContent).toContain("Waiting for approval. No session selects this host by them yet.");
  await click("Approve floor=2");
  expect(calls).toEqual([{ name: "a", labels: { floor: "2" } }]);
});

test("an approval that replaces a label asks first, and so does a withdrawal", async () => {
  render(<LabelsPanel agent={agent} />, box);
  await click("Approve site=berlin");
  expect(calls).toEqual([]);
  const dialog = box.querySelector("dialog");
  expect(dialog?.textContent).toContain("site=berlin would replace site=office, which an operator approved.");
  await click("Approve", dialog ?? box);
  expect(calls).toEqual([{ name: "a", labels: { site: "berlin" } }]);
  await click("Withdraw site=office");
  await click("Withdraw", box.querySelector("dialog") ?? box);
  expect(calls[1]).toEqual({ name: "a", withdraw: ["site"] });
});

test("addresses are shown, and approvals of them withdrawn", async () => {
  render(<AddressesPanel agent={agent} />, box);
  expect(box.textContent).toContain("10.0.0.7kept by b");
  await click("Withdraw 10.0.0.0/24");
  await click("Withdraw", box.querySelector("dialog") ?? box);
  expect(calls).toEqual([{ name: "a", withdraw: ["10.0.0.0/24"] }]);
});

test.each([["a viewer", "viewer", "connected"], ["a revoked host", "operator", "revoked"]] as const)("nothing can be changed: %s", (_, role, state) => {
  who.value = { name: "wall", role, scope: [] };
  render(<><LabelsPanel agent={{ ...agent, state }} /><AddressesPanel agent={{ ...agent, state }} /></>, box);
  expect([...box.querySelectorAll("button")].map((b) => b.textContent)).toEqual([]);
});
