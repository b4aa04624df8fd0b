import { create } from "@bufbuild/protobuf";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { FlowSchema } from "../gen/flow_pb.ts";
import { csv, fileName, flowsCsv, windowsCsv } from "./csv.ts";
import { columnsOf, gridOf } from "./columns.ts";
import { flowText, podEnds, podsTitle } from "./flows.ts";
import { noHistogram } from "./window.ts";
import { figures } from "./window.fixture.ts";

test("cells are quoted where required, and nothing is a formula", () => {
  expect(csv([["a,b", 'say "x"', "=1+1", NaN, undefined, -5, 0.1]])).toBe('"a,b","say ""x""",\'=1+1,,,-5,0.1\r\n');
});

test("cells are as those that Go writes", () => {
  const vectors = JSON.parse(readFileSync("../internal/csvfile/testdata/cells.json", "utf8")) as { cell: string | number; csv: string }[];
  for (const { cell, csv: want } of vectors) expect(csv([[cell, "next"]])).toBe(`${want},next\r\n`);
});

test("windows of both directions by time, in full precision", () => {
  const text = windowsCsv([
    { source: "a", destination: "b", windows: [figures(1000), figures(2000, { clockError: 1.25, lost: 3 })] },
    { source: "b", destination: "a", windows: [figures(1500, { clockError: NaN })] },
  ], 1000);
  const lines = text.trimEnd().split("\r\n");
  expect(lines).toHaveLength(4);
  const head = lines[0]?.split(",") ?? [];
  expect(head.slice(0, 8)).toEqual(["start", "start_ms", "step_ms", "source", "destination", "packets", "bytes", "expected"]);
  const rows = lines.slice(1).map((l) => Object.fromEntries(l.split(",").map((v, i) => [head[i] ?? "", v])));
  expect(rows.map((r) => r.source)).toEqual(["a", "b", "a"]);
  expect(rows[0]).toMatchObject({ start: "1970-01-01T00:00:01.000Z", start_ms: "1000", delay_p50_ns: "5100000", ipdv_p90_ns: "300000", clock_error_ns: "0" });
  expect(rows[1]?.clock_error_ns).toBe("");
  expect(rows[2]).toMatchObject({ clock_error_ns: "1.25", lost: "3" });
});

test("corrected delays beside those measured", () => {
  const delay = { count: 20, min: 1e6, mean: 1.1e6, p50: 1.1e6, p90: 1.2e6, p99: 1.3e6, max: 1.4e6, histogram: noHistogram };
  const corrected = { delay, offset: 4e6, bound: 9e5, skew: 50e3, skewBound: 10, drift: 25e3, resolution: 131072, segment: 0 };
  const lines = windowsCsv([{ source: "a", destination: "b", windows: [figures(1000, { corrected }), figures(2000)] }], 1000).trimEnd().split("\r\n").map((l) => l.split(","));
  const rows = lines.slice(1).map((l) => Object.fromEntries(l.map((v, i) => [lines[0]?.[i] ?? "", v])));
  expect(rows[0]).toMatchObject({ delay_p50_ns: "5100000", corrected_delay_p50_ns: "1100000", clock_offset_ns: "4000000", corrected_error_ns: "900000", clock_skew_ppb: "50000", clock_segment: "1970-01-01T00:00:00.000Z" });
  expect(rows[1]).toMatchObject({ delay_p50_ns: "5100000", corrected_delay_p50_ns: "", clock_offset_ns: "" });
});

test("flows", () => {
  const flow = create(FlowSchema, { src: "fd77::1", dst: "fd77::2", proto: "tcp", sport: 40000, dport: 443, total: { startMs: 1000n, packets: 7n }, last: { seconds: 5n, nanos: 500_000_000 } });
  const [head, row] = flowsCsv([flow], "a", "b").split("\r\n").map((l) => l.split(","));
  expect(row?.[head?.indexOf("last") ?? -1]).toBe("1970-01-01T00:00:05.500Z");
  expect(row?.[head?.indexOf("packets") ?? -1]).toBe("7");
  expect(row).toHaveLength(head?.length ?? 0);
  expect(row?.[head?.indexOf("src_pod") ?? -1]).toBe("");
  expect(flowText(flow)).toBe("tcp [fd77::1]:40000 → [fd77::2]:443");
  expect(flowText({ src: "", dst: "10.0.0.1", proto: "", sport: 0, dport: 53 })).toBe("→ 10.0.0.1:53");
});

test("flows of pods", () => {
  const source = { src: "10.1.0.1", dst: "10.2.0.1", srcPod: { namespace: "shop", name: "cart-0", node: "w1", held: true } };
  const flow = create(FlowSchema, source);
  const [head, row] = flowsCsv([flow], "w1", "w2").split("\r\n").map((l) => l.split(","));
  expect(row?.[head?.indexOf("src_pod") ?? -1]).toBe("shop/cart-0");
  expect(row?.[head?.indexOf("dst_pod") ?? -1]).toBe("");
  expect(podEnds(flow)).toEqual(["shop/cart-0", "10.2.0.1"]);
  expect(podsTitle(flow)).toBe("Pod shop/cart-0 on node w1 has 10.1.0.1");
  const both = create(FlowSchema, { ...source, dstPod: { namespace: "shop", name: "db-0", node: "w2" } });
  expect(podEnds(both)).toEqual(["shop/cart-0", "shop/db-0"]);
  expect(podsTitle(both)).toBe("Pod shop/cart-0 on node w1 has 10.1.0.1\nPod shop/db-0 on node w2 last had 10.2.0.1");
  const last = create(FlowSchema, { dst: "10.2.0.1", dstPod: { namespace: "shop", name: "db-0", node: "w2" } }); // by port: no source
  expect(podEnds(last)).toEqual(["", "shop/db-0"]);
  expect(podEnds({ src: "a", dst: "b" })).toBeUndefined();
});

test("a file's name has pair and range", () => {
  expect(fileName("windows", "a", "b", 0, 1000, "csv")).toMatch(/^pillion-windows-a-b-\d{8}-\d{6}-\d{8}-\d{6}\.csv$/);
});

test("windows as columns: a gap where there is none", () => {
  const times = gridOf(2500, 5000, 1000);
  expect(times).toEqual([1000, 2000, 3000, 4000, 5000]);
  const c = columnsOf([figures(2000, { lost: 2 }), figures(4000), figures(9000)], times, 1000);
  expect([...c.p50]).toEqual([NaN, 5.1e6, NaN, 5.1e6, NaN]);
  expect(c.loss[1]).toBeCloseTo(0.1);
  expect(c.rate[1]).toBe(16000);
  const late = columnsOf([figures(0), figures(10_000), figures(20_000)], [0, 10_000, 20_000], 10_000, 24_000);
  expect([...late.rate]).toEqual([1600, 1600, NaN]); // the last one is too short for a rate
  expect(columnsOf([figures(20_000)], [20_000], 10_000, 29_500).rate[0]).toBe(2000);
  expect(gridOf(0, 1e12, 1000)).toEqual([]);
});
