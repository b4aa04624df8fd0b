import { fromJson, toJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { SessionSpecSchema } from "../gen/session_pb.ts";
import { defaultSpec, fullSpec } from "./defaults.fixture.ts";
import { differences, samplingWords, trafficWords, whenWords } from "./phrase.ts";

const spec = (json: Record<string, JsonValue> = {}) => fromJson(SessionSpecSchema, { ...(toJson(SessionSpecSchema, defaultSpec) as JsonObject), name: "x", sources: ["a"], destinations: ["*"], ...json });

it("describes a specification", () => {
  expect(samplingWords(undefined)).toBe("every packet");
  expect(samplingWords(spec({ sampling: { hash: 8 } }).sampling)).toBe("1 in 8 packets, by content");
  expect(samplingWords(spec({ sampling: { hash: 8, hashSeed: "a" } }).sampling)).toBe("1 in 8 packets, by content (seed a)");
  expect(samplingWords(spec({ sampling: { random: 9, minGap: "0.001s" } }).sampling)).toBe("1 in 9 packets, at random, at least 1\u00a0ms apart");
  expect(trafficWords([])).toBe("all traffic");
  expect(trafficWords(["proto=tcp dport=443", "proto=udp"])).toBe("TCP to port 443; UDP");
  expect(whenWords(spec())).toBe("immediately, until stopped");
  expect(whenWords(spec({ cron: "0 9 * * 1-5", timeZone: "Europe/Berlin", duration: "28800s" }))).toBe("Monday to Friday at 09:00 (Europe/Berlin), for 8\u00a0h");
});

it("finds the differences", () => {
  expect(differences(spec(), spec(), [])).toEqual([]);
  expect(differences(spec(), spec({ interval: "5s", both: true }), []).map((d) => d.label)).toEqual(["Directions", "Rows"]);
  expect(differences(spec(), spec({ points: [{ name: "load", agents: ["a"], options: { size: "5" } }] }), [])).toEqual([{ label: "Further points", before: "none", after: "load on a (size 5)" }]);
});

describe("a change of any field is a difference", () => {
  it.each(SessionSpecSchema.fields.filter((f) => f.name !== "name").map((f) => [f.name, f.localName] as const))("%s", (_, name) => {
    expect(differences({ ...fullSpec, [name]: defaultSpec[name as keyof typeof defaultSpec] }, fullSpec, [])).not.toEqual([]);
  });
});
