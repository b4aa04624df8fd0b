// The page sums windows as the server sums rows: testdata of measure/flows holds both.
import { readFileSync } from "node:fs";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { WindowSchema } from "../gen/flow_pb.ts";
import { figuresOf, lossIn, noHistogram, sum } from "./window.ts";

const golden = JSON.parse(readFileSync("../measure/flows/testdata/figures.json", "utf8")) as { windows: JsonValue[]; total: JsonValue };

test("windows of rows sum to the server's figures", () => {
  const want = figuresOf(fromJson(WindowSchema, golden.total));
  const got = sum(golden.windows.map((w) => figuresOf(fromJson(WindowSchema, w))));
  if (!got) throw new Error("no windows");
  for (const key of ["delay", "ipdv"] as const) {
    expect(Math.abs(got[key].mean / want[key].mean - 1)).toBeLessThan(1e-12); // the server's is exact
    expect({ ...got[key], mean: 0, histogram: noHistogram }).toEqual({ ...want[key], mean: 0, histogram: noHistogram });
  }
  expect({ ...got, delay: want.delay, ipdv: want.ipdv }).toEqual(want);
  expect(lossIn(got)).toBe(lossIn(want));
});
