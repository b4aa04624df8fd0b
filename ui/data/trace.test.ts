import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { HopSchema, type Hop } from "../gen/topology_pb.ts";
import { compare } from "./trace.ts";

const hops = (text: string): Hop[] => text.split(" ").filter(Boolean).map((a, i) => create(HopSchema, { ttl: i + 1, address: a === "*" ? "" : a }));

describe("compare", () => {
  it.each([
    ["r1 r2 b", "r1 r2 b", "=r1 =r2 =b"],
    ["r1 r2 b", "r1 r4 b", "=r1 -r2 +r4 =b"],
    ["r1 b", "r1 r2 r3 b", "=r1 +r2 +r3 =b"],
    ["r1 r2 r3 b", "r1 b", "=r1 -r2 -r3 =b"],
    ["r1 * b", "r1 r2 b", "=r1 =r2 =b"],
    ["r1 r2 b", "r1 * b", "=r1 =r2 =b"],
    ["r1 * b", "r1 * * b", "=r1 =* +* =b"],
    ["", "r1 b", "+r1 +b"],
    ["r1 b", "", "-r1 -b"],
  ])("of %s and %s", (was, is, want) => {
    const sign = { same: "=", gone: "-", new: "+" };
    expect(compare(hops(was), hops(is)).map((l) => sign[l.kind] + (l.was?.address || l.is?.address || "*")).join(" ")).toBe(want);
  });
  it("treats addresses of one host as equal", () => {
    expect(compare(hops("b1"), hops("b2"), () => "b").map((l) => l.kind)).toEqual(["same"]);
  });
});
