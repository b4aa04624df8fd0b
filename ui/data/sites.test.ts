import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { HostFiguresSchema, SiteFiguresSchema } from "../gen/flow_pb.ts";
import { hostFigure, siteFigure, siteName, worstFirst } from "./sites.ts";

test("figures of sites and hosts", () => {
  const pair = create(SiteFiguresSchema, { source: "a", destination: "b", total: { expected: 200n, lost: 10n, delay: { p50Ns: 5, p99Ns: 9 } } });
  expect([siteFigure(pair, "loss"), siteFigure(pair, "delay"), siteFigure(pair, "p99")]).toEqual([0.05, 5, 9]);
  expect(siteFigure(create(SiteFiguresSchema), "loss")).toBeNaN();
  const host = (source: string, lost: bigint) => create(HostFiguresSchema, { source, expected: 100n, lost, p50Ns: NaN, worstP99Ns: 7 });
  expect(hostFigure(host("x", 1n), "p99")).toBe(7);
  const silent = create(HostFiguresSchema, { source: "s" });
  expect(worstFirst([silent, host("b", 1n), host("a", 1n), host("c", 2n)], (p) => hostFigure(p, "loss")).map((p) => p.source)).toEqual(["c", "a", "b", "s"]);
  expect(siteName("")).toBe("no site");
});
