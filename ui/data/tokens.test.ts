import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { TokenSchema } from "../gen/server_pb.ts";
import { boundsOf, roles } from "./tokens.ts";

it("tells uses, names and labels of a join token apart", () => {
  const token = (init: Parameters<typeof create<typeof TokenSchema>>[1]) => boundsOf(create(TokenSchema, init));
  expect(token({ role: "join", maxUses: 5, uses: 3, agents: "rack7-*", labels: { site: "north", edge: "" } })).toEqual({ hosts: "3 of 5", names: "rack7-*", labels: "edge, site=north" });
  expect(token({ role: "join", uses: 2 })).toEqual({ hosts: "2, no limit", names: "any", labels: "none" });
  expect(token({ role: "viewer" })).toBeUndefined();
});

it("does not promise a viewer SQL", () => {
  expect(roles.find((r) => r.key === "viewer")?.may).toBe("A viewer may read measurements, but not run SQL or change anything.");
});
