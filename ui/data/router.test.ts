import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { AgentSchema, type Agent } from "../gen/agent_pb.ts";
import { SessionSchema } from "../gen/session_pb.ts";
import { PathSchema, QueueSizesSchema, QueueWindowSchema, StageWindowSchema } from "../gen/topology_pb.ts";
import { queueColumns, queueSummaries, routersOf, stageColumns, stageShares } from "./router.ts";

const host = (name: string, interfaces: Record<string, string> = {}, role?: string): Agent => create(AgentSchema, {
  name, interfaces: Object.entries(interfaces).map(([n, a]) => ({ name: n, addresses: [a] })), tasks: role ? [{ agent: name, role }] : [],
});
const session = (routers: string[]) => create(SessionSchema, { spec: { name: "s", routers } });
const path = (source: string, destination: string, ...addresses: string[]) =>
  create(PathSchema, { source, destination, hops: addresses.map((address, i) => ({ ttl: i + 1, address })) });

describe("routers of a pair", () => {
  const r1 = host("r1", { west: "10.0.1.1/24", east: "10.0.2.1/24" });
  const r2 = host("r2", { up: "10.0.9.1/24" });
  const busy = host("r1", { west: "10.0.1.1/24", east: "10.0.2.1/24" }, "router");
  const there = path("a", "b", "10.0.1.1", "10.0.2.2");
  const home = path("b", "a", "10.0.2.1", "10.0.1.2");
  test.each([
    ["named, path not known", [session(["r1"])], [r1, r2], [], [{ agent: "r1" }]],
    ["named, on the path there and back", [session(["r1"])], [r1], [there, home], [{ agent: "r1", out: "west", back: "east" }]],
    ["named, and another on the path", [session(["r1", "r2"])], [r1, r2], [there], [{ agent: "r1", out: "west", back: undefined }]],
    ["profiled by itself, on the path", [session([])], [busy, r2], [there], [{ agent: "r1", out: "west", back: undefined }]],
    ["on the path, not profiled", [session([])], [r1], [there], []],
    ["profiled, on another path", [session([])], [busy], [path("a", "c", "10.0.1.1")], []],
    ["an end of the pair", [session(["a"])], [host("a", {}, "router")], [], []],
  ])("%s", (_name, sessions, agents, paths, want) => expect(routersOf({ source: "a", destination: "b" }, sessions, agents, paths)).toEqual(want));
});

const stage = (startMs: number, stageName: string, p50Ns: number) => create(StageWindowSchema, { startMs: BigInt(startMs), stage: stageName, delay: { count: 1n, p50Ns, p99Ns: 2 * p50Ns } });

test("delays of stages are on the grid", () => {
  const c = stageColumns([stage(1000, "output_queuing", 5), stage(9000, "processing", 7), stage(1000, "other", 1)], [0, 1000, 2000], 1000);
  expect([...(c.get("output_queuing")?.p50 ?? [])]).toEqual([NaN, 5, NaN]);
  expect(c.get("output_queuing")?.p99[1]).toBe(10);
  expect(c.get("processing")?.p50.every(Number.isNaN)).toBe(true);
  expect([...c.keys()]).toEqual(["input_queuing", "processing", "output_queuing"]);
});

test("a line for each queue", () => {
  const q = (name: string, side: string, meanDepth: number) => create(QueueWindowSchema, { interface: name, side, startMs: 1000n, meanDepth, kernelDepth: 1 });
  const lines = queueColumns([q("east", "output", 2), q("west", "input", 1)], [0, 1000], 1000);
  expect(lines.map((l) => [l.side, l.interface, l.mean[1], l.kernel[1]])).toEqual([["input", "west", 1, 1], ["output", "east", 2, 1]]);
});

test("shares of stages are of the time inside, whatever the windows", () => {
  const window = (name: string, count: bigint, meanNs: number) => create(StageWindowSchema, { stage: name, delay: { count, meanNs } });
  const shares = stageShares([window("input_queuing", 2n, 10), window("processing", 2n, 30), window("input_queuing", 1n, 20), window("transit", 3n, 99)]);
  expect([...shares]).toEqual([["input_queuing", 0.4], ["processing", 0.6], ["output_queuing", 0]]);
  expect(stageShares([]).size).toBe(0);
});

test("a summary of each queue's distributions", () => {
  const counts = (...pairs: [number, number][]) => pairs.map(([packets, n]) => ({ packets, count: BigInt(n) }));
  const queues = [
    create(QueueSizesSchema, { interface: "west", side: "input", sizes: counts([1, 90], [2, 9], [7, 1]), arrivals: counts([0, 10], [1, 80], [3, 10]) }),
    create(QueueSizesSchema, { interface: "east", side: "output" }),
  ];
  expect(queueSummaries(queues)).toEqual([{ interface: "west", side: "input", waiting: 0.1, p99: 2, bursts: 0.1 }]);
});
