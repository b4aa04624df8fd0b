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
  it.each([
    ["oldest first", [event(30, both), event(10, both), event(20, both)], [10, 20, 30]],
    ["of both hosts of a pair", [event(1, both), event(2, { agent: "a", peer: "c" })], [1]],
    ["of the pair's other direction", [event(1, { agent: "b", peer: "a" })], [1]],
    ["of one host", [event(1, { agent: "b" }), event(2, { agent: "c" })], [1]],
    ["of its session", [event(1, { session: "s" })], [1]],
    ["of neither a host nor a session: none", [event(1)], []],
    ["of other sessions: none", [event(1, { session: "t", ...both }), event(2, both)], [2]],
    ["one text within a second once", [event(5000, { message: "x", ...both }), event(5500, { message: "x", ...both }), event(7000, { message: "x", ...both })], [5000, 7000]],
    ["without a time: none", [create(EventSchema, { kind: "loss", ...both })], []],
  ] as [string, Event[], number[]][])("%s", (_, events, want) => {
    expect(marksOf(events, { agents: ["a", "b"], sessions: ["s"] }).map((m) => m.time)).toEqual(want);
  });
  it("takes a level and a text even from unknown kinds", () => {
    expect(marksOf([event(1, { level: "fatal", kind: "quite-new", message: "", ...both })], { agents: ["a", "b"], sessions: [] })).toEqual([{ time: 1, level: "warning", text: "Quite new" }]);
  });
});

describe("kindOf", () => {
  it.each([["agent-lost", "Agent lost"], ["quite-new", "Quite new"], ["", "Event"], ["constructor", "Constructor"]])("%s", (kind, label) => {
    expect(kindOf(kind).label).toBe(label);
  });
});
