import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { RowSchema, type Value } from "../gen/data_pb.ts";
import { agrees, aroundChange, compare, literal, statement, tracesOf, type Step, type Trace } from "./trace.ts";

const steps = (text: string): Step[] => text.split(" ").filter(Boolean).map((a, i) => ({ ttl: i + 1, address: a === "*" ? "" : a, sent: 3, answers: a === "*" ? 0 : 3 }));
const trace = (time: number, text: string, reached = true): Trace => ({ time, reached, steps: steps(text) });

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
    expect(compare(steps(was), steps(is)).map((l) => sign[l.kind] + (l.was?.address || l.is?.address || "*")).join(" ")).toBe(want);
  });
  it("takes addresses of one host for one", () => {
    expect(compare(steps("b1"), steps("b2"), () => "b").map((l) => l.kind)).toEqual(["same"]);
  });
});

describe("agrees", () => {
  it.each([
    ["the same", trace(1, "r1 b"), trace(2, "r1 b"), true],
    ["another router", trace(1, "r1 b"), trace(2, "r2 b"), false],
    ["a silent hop", trace(1, "r1 b"), trace(2, "* b"), true],
    ["longer", trace(1, "r1 b"), trace(2, "r1 r2 b"), false],
    ["silence at the end", trace(1, "r1 r2 b"), trace(2, "r1 * * * *", false), true],
  ])("%s", (_, a, b, want) => expect(agrees(a, b)).toBe(want));
});

it("finds the route before the last change", () => {
  const traces = [trace(1, "r1 b"), trace(2, "r1 b"), trace(3, "r2 b"), trace(4, "* b"), trace(5, "r2 b")];
  expect(aroundChange(traces)).toEqual({ before: traces[1], after: traces[4] });
  expect(aroundChange(traces.slice(2))).toEqual({ before: undefined, after: traces[4] });
  expect(aroundChange([])).toEqual({});
});

describe("SQL", () => {
  it("takes names as data", () => {
    expect(literal("a")).toBe("'a'");
    expect(literal("a' OR ''='")).toBe("'a'' OR ''''='''");
    expect(() => literal("a\\' OR 1=1 --")).toThrow("is not a name");
    expect(() => literal("a\nb")).toThrow();
  });
  it("asks for one path until a time", () => {
    const sql = statement({ source: "a", destination: "b'c", address: "10.0.0.1", protocol: "udp" }, Date.UTC(2026, 10, 21, 7, 0, 0, 5), 12);
    expect(sql).toContain("agent = 'a' AND peer = 'b''c' AND dst = '10.0.0.1' AND protocol = 'udp' AND time <= '2026-11-21 07:00:00.005'");
  });
});

it("puts rows together to traces", () => {
  const value = (kind: Value["kind"]) => ({ kind });
  const row = (time: bigint, ttl: bigint, address?: string, reached = false) => create(RowSchema, { values: [
    value({ case: "time", value: time }), value({ case: "uint", value: ttl }), address ? value({ case: "text", value: address }) : {},
    address ? value({ case: "int", value: 5000n }) : {}, value({ case: "uint", value: 3n }), value({ case: "uint", value: address ? 2n : 0n }), value({ case: "bool", value: reached }),
  ] });
  const traces = tracesOf([row(1_000_000_000n, 1n, "r1"), row(1_000_000_000n, 2n), row(1_000_000_000n, 3n, "b", true), row(2_000_000_000n, 1n, "r2")]);
  expect(traces).toEqual([
    { time: 1000, reached: true, steps: [
      { ttl: 1, address: "r1", rtt: 5000, sent: 3, answers: 2 }, { ttl: 2, address: "", rtt: undefined, sent: 3, answers: 0 }, { ttl: 3, address: "b", rtt: 5000, sent: 3, answers: 2 },
    ] },
    { time: 2000, reached: false, steps: [{ ttl: 1, address: "r2", rtt: 5000, sent: 3, answers: 2 }] },
  ]);
});
