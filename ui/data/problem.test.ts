import { describe, expect, it } from "vitest";
import { defaultSpec } from "./defaults.fixture.ts";
import { SessionSpecSchema } from "../gen/session_pb.ts";
import { newDraft, type Draft } from "./draft.ts";
import { place, placeOf, tidy } from "./problem.ts";

const draft = (change: Partial<Draft> = {}): Draft => ({ ...newDraft(defaultSpec, ["a"], ["b"]), ...change });
const filter = { proto: "", src: "", sport: "", dst: "", dport: "" };
const when = newDraft(defaultSpec).when;

describe("placeOf", () => {
  it.each([
    ["name", "f-name", draft()],
    ["sources[0]", "f-sources", draft()],
    ["destinations", "f-destinations", draft()],
    ["modules[1]", "f-modules", draft()],
    ["filters[1]", "f-filter-1", draft({ filters: [filter, filter] })],
    ["filters[1]", "f-filters", draft()],
    ["sampling.every", "f-sampling-n", draft()],
    ["sampling.min_gap", "f-sampling-gap", draft()],
    ["sampling.hash_seed", "f-sampling-seed", draft()],
    ["sampling_for[b].random", "f-sampling-for-1-n", draft({ samplingFor: ["a", "b"].map((agent) => ({ agent, sampling: { mode: "all", n: "", gap: "" } })) })],
    ["sampling_for[z].random", "f-sampling-for", draft()],
    ["device[a]", "f-device-0", draft({ device: [{ agent: "a", device: "x" }] })],
    ["transit[b]", "f-transit-0", draft({ transit: [{ agent: "b", prefixes: "10.1.0.0/16" }] })],
    ["device[#0]", "f-device-0", draft({ device: [{ agent: "", device: "x" }] })],
    ["points[0].name", "f-point-0", draft({ points: [{ name: "load", agents: [], options: {} }] })],
    ["points[0].agents[0]", "f-point-0-agents", draft({ points: [{ name: "load", agents: ["x"], options: {} }] })],
    ["points[0].options[size]", "f-point-0-size", draft({ points: [{ name: "load", agents: [], options: {} }] })],
    ["trace", "f-trace", draft()],
    ["hops", "f-hops", draft()],
    ["flow", "f-flow", draft()],
    ["flows", "f-flows", draft()],
    ["idle", "f-idle", draft()],
    ["hops_gap", "f-hops-gap", draft()],
    ["cron", "f-cron-line", draft({ when: { ...when, kind: "repeat", repeat: { ...when.repeat, kind: "own" } } })],
    ["cron.days", "f-cron-days", draft({ when: { ...when, kind: "repeat" } })],
    ["start", "f-start", draft({ when: { ...when, kind: "once" } })],
    ["time_zone", "f-zone", draft({ when: { ...when, kind: "repeat" } })],
    ["start", undefined, draft()],
    ["cron", undefined, draft()],
    ["something.new", undefined, draft()],
    ["", undefined, draft()],
  ])("%s is at %s", (field, id, d) => expect(placeOf(field, d)?.id).toBe(id));
});

it("groups problems by place, those of the page before those of the server", () => {
  const p = place(
    [{ field: "interval", message: "Write a length of time." }],
    [{ field: "interval", message: "0s is not from 100ms to 1h" }, { field: "sources[0]", message: "x" }, { field: "sources[1]", message: "y" }, { field: "odd", message: "z" }],
    draft(),
  );
  expect(p.at.get("f-interval")).toBe("Write a length of time.");
  expect(p.at.get("f-sources")).toBe("X. Y.");
  expect(p.rest).toEqual(["odd: Z."]);
  expect(p.count).toBe(4);
  expect(p.sections.get("who")).toBe(2);
});

it("omits what the form shows anyway", () => {
  expect(tidy('read filter "dport=x \\"y\\"": port "x" is not a number from 1 to 65535')).toBe('Port "x" is not a number from 1 to 65535.');
  expect(tidy("a: conflict with session x")).toBe("a: conflict with session x.");
});

it("has a place for every field", () => {
  const d = draft({ when: { ...when, kind: "repeat" } });
  expect(SessionSpecSchema.fields.map((f) => f.name).filter((name) => !placeOf(name, d))).toEqual([]);
});
