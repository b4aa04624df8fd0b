import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { AgentSchema } from "../gen/agent_pb.ts";
import { options, selected } from "./selector.ts";

const agent = (name: string, labels: Record<string, string>, state = "connected") => create(AgentSchema, { name, labels, state });
const all = [agent("a", { site: "north" }), agent("b", { site: "south", a: "1" }), agent("old", { site: "south" }, "revoked")];

it.each([["*", "a b"], ["a", "a"], ["site", "a b"], ["site=south", "b"], ["site=", ""], ["unknown", ""]])("%s means %j", (selector, names) => {
  expect(selected(selector, all).map((a) => a.name).join(" ")).toBe(names);
});

it("offers no label that an agent's name hides", () => {
  expect(options(all).map((o) => o.selector)).toEqual(["*", "a", "b", "a=1", "site=north", "site=south", "site"]);
});
