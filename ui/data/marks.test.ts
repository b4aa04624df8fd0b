import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { EventSchema, type Event } from "../gen/server_pb.ts";
import { kindOf } from "./kind.ts";
import { marksOf } from "./marks.ts";

const event = (at: number, rest: Partial<Omit<Event, "$typeName" | "time">> = {}): Event =>
  create(EventSchema, { time: timestampFromMs(at), kind: "loss", level: "warning", message: `at ${at}`, ...rest });

describe("marksOf", () => {
  const both = { agent: "a", peer: "b" };
  const rows: [string, Event[], Parameters<typeof marksOf>[1], number[]][] = [
    ["oldest first", [event(30), event(10), event(20)], {}, [10, 20, 30]],
    ["in the range, ends included", [event(10), event(20), event(30), event(40)], { from: 20, to: 30 }, [20, 30]],
    ["of both hosts of a pair", [event(1, both), event(2, { agent: "a", peer: "c" })], { agents: ["a", "b"] }, [1]],
    ["of the pair's other direction", [event(1, { agent: "b", peer: "a" })], { agents: ["a", "b"] }, [1]],
    ["of one host", [event(1, { agent: "b" }), event(2, { agent: "c" })], { agents: ["a", "b"] }, [1]],
    ["of no host", [event(1, { session: "s" })], { agents: ["a", "b"], session: "s" }, [1]],
    ["of other sessions not", [event(1, { session: "t", ...both }), event(2, both)], { session: "s" }, [2]],
    ["one text within a second once", [event(5000, { message: "x" }), event(5500, { message: "x" }), event(7000, { message: "x" })], {}, [5000, 7000]],
    ["without a time not", [create(EventSchema, { kind: "loss" })], {}, []],
  ];
  it.each(rows)("%s", (_, events, choice, want) => {
    expect(marksOf(events, choice).map((m) => m.time)).toEqual(want);
  });
  it("takes a level and a text even from what it does not know", () => {
    expect(marksOf([event(1, { level: "fatal", kind: "quite-new", message: "" })])).toEqual([{ time: 1, level: "warning", text: "Quite new" }]);
  });
});

describe("kindOf", () => {
  it.each([["agent-lost", "Agent lost"], ["quite-new", "Quite new"], ["", "Event"], ["constructor", "Constructor"]])("%s", (kind, label) => {
    expect(kindOf(kind).label).toBe(label);
  });
});
