import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { SessionSpecSchema } from "../gen/session_pb.ts";
import { differences, samplingWords, trafficWords, whenWords } from "./phrase.ts";

const spec = (json: Record<string, JsonValue> = {}) => fromJson(SessionSpecSchema, { name: "x", sources: ["a"], destinations: ["*"], ...json });

it("says what a specification means", () => {
  expect(samplingWords(undefined)).toBe("every packet");
  expect(samplingWords(spec({ sampling: { random: 9, minGap: "0.001s" } }).sampling)).toBe("one packet in 9, at random, at least 1ms apart");
  expect(trafficWords([])).toBe("all traffic");
  expect(trafficWords(["proto=tcp dport=443", "proto=udp"])).toBe("TCP to port 443; UDP");
  expect(whenWords(spec())).toBe("at once, until it is stopped");
  expect(whenWords(spec({ cron: "0 9 * * 1-5", timeZone: "Europe/Berlin", duration: "28800s" }))).toBe("Monday to Friday at 09:00 (Europe/Berlin), for 8h");
});

it("finds what a change makes different, defaults written out or not", () => {
  expect(differences(spec(), spec({ encoding: "udp", interval: "1s", lease: "10s", trace: "60s", modules: ["delay", "loss"] }))).toEqual([]);
  expect(differences(spec(), spec({ interval: "5s", both: true })).map((d) => d.label)).toEqual(["Directions", "Rows"]);
});
