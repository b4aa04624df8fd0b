import { equals, fromJson, toJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { PointRequestSchema, SessionSpecSchema, type SessionSpec } from "../gen/session_pb.ts";
import { defaultSpec, emptyFields, fullSpec } from "./defaults.fixture.ts";
import { copyOf, draftOf, keptDraft, newDraft, specOf, suggestName } from "./draft.ts";

/** As the server returns them: with all defaults filled in. */
const complete = (json: Record<string, JsonValue>): SessionSpec => fromJson(SessionSpecSchema, {
  name: "x", sources: ["a"], destinations: ["b"], modules: ["delay", "loss"], encoding: "udp-option,tcp-option,native,udp", stampEvery: 16, authentication: "auto", family: "any", interval: "1s",
  granularity: "flow", lease: "10s", trace: "60s", hops: "traceroute", hopsGap: "0.1s", flow: "src,dst,proto,sport,dport", idle: "60s", ...json,
});

describe("the form of a specification returns the same specification", () => {
  it.each([
    ["plain", {}],
    ["both ways, one module", { both: true, modules: ["loss"] }],
    ["a module that this page does not know", { modules: ["delay", "hop-count", "loss"] }],
    ["filters", { filters: ["src=10.0.0.0/8 proto=tcp dport=443", "proto=udp"] }],
    ["by count", { sampling: { every: 10, minGap: "0.0001s" } }],
    ["at random", { sampling: { random: 7 } }],
    ["by content", { sampling: { hash: 7 } }],
    ["by content, with a seed", { sampling: { hash: 7, hashSeed: "a b", minGap: "0.5s" } }],
    ["a gap alone", { sampling: { minGap: "0.5s" } }],
    ["single sources", { samplingFor: { a: { every: 3 }, b: {} } }],
    ["rows", { interval: "0.1s", granularity: "host", records: true }],
    ["marks", { encoding: "shim", stampEvery: 1, sparseMarks: true, authentication: "off", family: "ipv4", device: { a: "eth0" }, transit: { b: "10.1.0.0/16" }, lease: "120s", trace: "-1s", hops: "ioam", hopsGap: "1s" }],
    ["flows", { flow: "src,dst,dport", flows: 4096, idle: "300s" }],
    ["waypoints", { waypoints: ["r1"] }],
    ["routers", { routers: ["r1", "role=edge"] }],
    ["points", { points: [{ name: "load", agents: ["a"], options: { size: "5" } }, { name: "other" }] }],
    ["once", { start: "2027-01-02T03:04:05Z", duration: "5400s" }],
    ["repeated", { cron: "30 9,21 * * 1-5", timeZone: "Europe/Berlin", duration: "28800s" }],
    ["own cron line, not before", { cron: "*/7 3 1 * *", timeZone: "UTC", duration: "60s", start: "2027-01-02T03:04:00Z" }],
  ] as [string, Record<string, JsonValue>][])("%s", (_, json) => {
    const spec = complete(json);
    const { spec: back, faults } = specOf(draftOf(spec));
    expect(faults).toEqual([]);
    expect(equals(SessionSpecSchema, back, spec)).toBe(true);
  });
});

describe("editing one field keeps the others", () => {
  const json = (spec: SessionSpec): JsonObject => toJson(SessionSpecSchema, spec) as JsonObject;
  const edits: Record<string, (d: ReturnType<typeof draftOf>) => void> = {
    interval: (d) => (d.interval = "7s"), sources: (d) => (d.sources = ["other"]), lease: (d) => (d.settings.lease = "30s"), authentication: (d) => (d.settings.authentication = "off"),
  };
  it("has a value of every field of a specification", () => {
    expect(emptyFields(SessionSpecSchema, fullSpec)).toEqual([]);
    expect(fullSpec.points.map((p) => emptyFields(PointRequestSchema, p))).toEqual([[]]);
  });
  it.each(Object.keys(edits))("%s", (field) => {
    const draft = JSON.parse(JSON.stringify(draftOf(fullSpec))) as ReturnType<typeof draftOf>; // as kept across a reload
    edits[field]?.(draft);
    const { spec, faults } = specOf(draft);
    expect(faults).toEqual([]);
    expect(json(spec)[field]).not.toEqual(json(fullSpec)[field]);
    expect({ ...json(spec), [field]: null }).toEqual({ ...json(fullSpec), [field]: null });
  });
  it("also of a later version", () => {
    const later = { ...fullSpec, $unknown: [{ no: 1999, wireType: 0, data: new Uint8Array([7]) }] };
    const { spec } = specOf({ ...draftOf(later), interval: "7s" });
    expect(spec.$unknown).toEqual(later.$unknown);
  });
});

it("keeps input across a reload", () => {
  const begin = newDraft(defaultSpec, ["a"], ["b"]);
  expect(keptDraft(undefined, begin)).toEqual(begin);
  expect(keptDraft({ name: "x", settings: { encoding: "shim" } }, begin)).toEqual({ ...begin, name: "x", settings: { ...begin.settings, encoding: "shim" } });
});

describe("invalid input is a fault at its field", () => {
  const fault = (change: (d: ReturnType<typeof newDraft>) => void): string[] => {
    const d = newDraft(defaultSpec, ["a"], ["b"]);
    change(d);
    return specOf(d).faults.map((f) => f.field);
  };
  it("nothing at first", () => expect(fault(() => {})).toEqual([]));
  it("interval", () => expect(fault((d) => (d.interval = "soon"))).toEqual(["interval"]));
  it("one in one", () => expect(fault((d) => (d.sampling = { mode: "every", n: "1", gap: "" }))).toEqual(["sampling.every"]));
  it("time stamps", () => expect(fault((d) => (d.settings.stamp_every = "0"))).toEqual(["stamp_every"]));
  it("no module", () => expect(fault((d) => (d.modules = []))).toEqual(["modules"]));
  it("empty filter", () => expect(fault((d) => d.filters.push({ proto: "", src: " ", sport: "", dst: "", dport: "" }))).toEqual(["filters[0]"]));
  it("no start", () => expect(fault((d) => (d.when.kind = "once"))).toEqual(["start"]));
  it("repeated without a length", () => expect(fault((d) => (d.when.kind = "repeat"))).toEqual(["duration"]));
  it("an agent twice", () => expect(fault((d) => d.device.push({ agent: "a", device: "x" }, { agent: "a", device: "y" }, { agent: "", device: "" }))).toEqual(["device[#1]", "device[#2]"]));
});

it("a copy has no name, and no start in the past", () => {
  const spec = complete({ start: "2020-01-01T00:00:00Z", duration: "60s" });
  expect(copyOf(spec)).toMatchObject({ name: "", named: false, when: { kind: "now", duration: "1m" } });
  expect(copyOf(spec, 0).when.kind).toBe("once");
});

it("suggests names that are free", () => {
  expect(suggestName(["a"], ["b"], new Set())).toBe("a-to-b");
  expect(suggestName(["a"], ["b"], new Set(["a-to-b", "a-to-b-2"]))).toBe("a-to-b-3");
  expect(suggestName(["site=North_1"], ["*"], new Set())).toBe("north-1-to-all");
  expect(suggestName(["*"], ["*"], new Set())).toBe("all");
  expect(suggestName([], [], new Set())).toBe("session");
});

it("a new session has the defaults and both directions", () => {
  expect(newDraft(defaultSpec)).toMatchObject({ named: false, both: true, modules: ["delay", "loss"], interval: "1s", settings: { lease: "10s", encoding: "udp-option,tcp-option,native,udp", stamp_every: "16", sparse_marks: "false", flows: "", flow: "src,dst,proto,sport,dport" }, tracing: true, trace: "1m", points: [] });
});
