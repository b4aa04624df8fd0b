import { createClient, createRouterTransport } from "@connectrpc/connect";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { FlowService, WatchPairsResponseSchema } from "../gen/flow_pb.ts";
import { PackedSchema, PackedService, unpack, type Packed } from "./pair-wire.ts";

const read = (bytes: Uint8Array) => unpack(fromBinary(PackedSchema, bytes) as unknown as Packed);

it("reads what the generated writer wrote", () => {
  const m = create(WatchPairsResponseSchema, {
    startMs: 1_700_000_000_000n, agents: ["a", "b", "ç"], sources: [0, 1, 300], destinations: [1, 0, 70_000],
    packets: [1, 127, 128], expected: [16_384, 0, 4_294_967_295], lost: [0, 0, 2 ** 31],
    p50Ns: [5e6, NaN, -3], p99Ns: [Infinity, 0.5, 1], rate: [1, 2, 3], clockErrorNs: [NaN, NaN, 1e9],
  });
  const got = read(toBinary(WatchPairsResponseSchema, m));
  expect(got.startMs).toBe(1_700_000_000_000);
  expect(got.agents).toEqual(m.agents);
  for (const list of ["sources", "destinations", "packets", "expected", "lost", "p50Ns", "p99Ns", "rate", "clockErrorNs"] as const) {
    expect([...Array.from(got[list])], list).toEqual(m[list]);
  }
});

it("reads a second without pairs", () => {
  const got = read(toBinary(WatchPairsResponseSchema, create(WatchPairsResponseSchema, { startMs: 5000n })));
  expect(got.startMs).toBe(5000);
  expect(got.sources.length).toBe(0);
  expect(got.p50Ns.length).toBe(0);
});

it("is what a client gets", async () => {
  const transport = createRouterTransport(({ service }) => {
    service(FlowService, {
      async *watchPairs() {
        yield { startMs: 7000n, sources: [200], destinations: [1], rate: [0.5] };
      },
    });
  });
  for await (const m of createClient(PackedService, transport).watchPairs({})) {
    const got = unpack(m as unknown as Packed);
    expect([got.startMs, ...Array.from(got.sources), ...Array.from(got.rate)]).toEqual([7000, 200, 0.5]);
  }
});
