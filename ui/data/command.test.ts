import { execFileSync } from "node:child_process";
import { fromJson } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { SessionSpecSchema } from "../gen/session_pb.ts";
import { changeCommand, createCommand, quoted } from "./command.ts";
import { defaultSpec } from "./defaults.fixture.ts";

it.each(["plain", "*", "", "it's", "a b", "$(x) `y` \\ \"z\"", "proto=tcp dport=443", "0 9 * * 1-5", "#x", "~", "a;b", "ümlaut"])("a shell parses %j unchanged", (word) => {
  expect(execFileSync("sh", ["-c", `printf %s ${quoted(word)}`]).toString()).toBe(word);
});

it("omits defaults", () => {
  expect(createCommand({ ...defaultSpec, name: "x", sources: ["a"], destinations: ["b"] }, defaultSpec)).toBe("pillion session create --name x --from a --to b");
});

const all = fromJson(SessionSpecSchema, {
  name: "x", sources: ["site=north", "a"], destinations: ["*"], both: true, modules: ["loss"], encoding: "shim", stampEvery: 1, sparseMarks: true, family: "ipv4", filters: ["proto=tcp dport=443", "dst=10.0.0.1"],
  sampling: { every: 10, minGap: "0.0001s" }, samplingFor: { a: { random: 3 } }, interval: "5s", granularity: "host", records: true, device: { a: "eth0" }, routers: ["r1", "r2"], points: [{ name: "load", agents: ["a", "role=edge"], options: { size: "5", burst: "1s" } }],
  lease: "120s", trace: "-1s", start: "2027-01-01T09:00:00Z", duration: "86400s", cron: "0 9 * * 1-5", timeZone: "Europe/Berlin",
});

it("has everything else, fields without a flag as YAML", () => {
  expect(createCommand(all, defaultSpec)).toBe("pillion session create - --name x --from site=north,a --to '*' --both --modules loss --encoding shim --stamp-every 1 --sparse-marks --family ipv4 " +
    "--filter 'proto=tcp dport=443' --filter dst=10.0.0.1 --every 10 --min-gap 100us --interval 5s --by host --records --device a=eth0 --router r1 --router r2 --point load:burst=1s,size=5@a,role=edge " +
    "--lease 2m --trace=-1s --start 2027-01-01T09:00:00Z --duration 1d --cron '0 9 * * 1-5' --tz Europe/Berlin <<'END'\nsampling_for: {\"a\":{\"random\":3}}\nEND");
});

it("changes by the whole specification", () => {
  expect(changeCommand(all)).toContain("pillion session change x - <<'END'\nname: \"x\"\nsources: [\"site=north\",\"a\"]\n");
  expect(changeCommand(all)).toContain('\nduration: "1d"\n');
  expect(changeCommand(all)).toContain('\ntrace: "-1s"\n');
});
