// What the sender did, from the answer of the server.
import { fromJson } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { SeriesResponseSchema } from "../gen/data_pb.ts";
import { sentOf } from "./sent.ts";

const values = (...lists: (number | "NaN")[][]) => lists.map((list) => ({ values: list }));

const answer = fromJson(SeriesResponseSchema, {
  step: "1s",
  lines: [
    { labels: { session: "s", traffic: "pair", mechanism: "bpf" }, timesMs: ["2000"], values: values([700], [900], ["NaN"], ["NaN"], [2], [0], [1], [3], [4]) },
    {
      labels: { session: "s", traffic: "train", mechanism: "bpf" }, timesMs: ["1000", "2000", "4000"],
      values: values([500, 800, "NaN"], [1000, 4000, "NaN"], [1e6, 2e6, "NaN"], [1e6, 1e6, "NaN"], [10, 30, 0], [1, 2, 0], [0, 0, 5], [0, 0, 0], [0, 0, 0]),
    },
  ],
});

test("means are weighted by packets, counts are sums, and the most packets come first", () => {
  const [train, pair] = sentOf(answer, [0, 1000, 2000, 3000, 4000], 1000);
  expect([...(train?.p50 ?? [])]).toEqual([NaN, 500, 800, NaN, NaN]);
  expect(train).toMatchObject({ traffic: "train", lateness: { p50: 725, p99: 3250 }, rate: 1.75e6, asked: 1e6, sent: 40, late: 3, failed: 5, unsent: 0 });
  expect(pair).toMatchObject({ traffic: "pair", mechanism: "bpf", rate: NaN, sent: 2, failed: 1, unsent: 7 });
});

test("rows outside of the grid are left out of the chart", () => {
  expect([...(sentOf(answer, [2000], 1000)[0]?.p99 ?? [])]).toEqual([4000]);
});
