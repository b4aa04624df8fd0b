import { execFileSync } from "node:child_process";
import { clearField, clone } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { SessionSpecSchema } from "../gen/session_pb.ts";
import { changeCommand, createCommand, quoted } from "./command.ts";
import { defaultSpec, fullSpec } from "./defaults.fixture.ts";

it.each(["plain", "*", "", "it's", "a b", "$(x) `y` \\ \"z\"", "proto=tcp dport=443", "0 9 * * 1-5", "#x", "~", "a;b", "ümlaut"])("a shell parses %j unchanged", (word) => {
  expect(execFileSync("sh", ["-c", `printf %s ${quoted(word)}`]).toString()).toBe(word);
});

it("omits defaults", () => {
  expect(createCommand({ ...defaultSpec, name: "x", sources: ["a"], destinations: ["b"] }, defaultSpec)).toBe("pillion session create --name x --from a --to b");
});

it("has everything else, fields without a flag as YAML", () => {
  expect(createCommand(fullSpec, defaultSpec)).toBe("pillion session create - --name x --from site=north,a --to '*' --both --modules loss --encoding shim,altmark --family ipv4 --lease 2m --stamp-every 1 --sparse-marks --authentication on --hops ioam --hops-gap 1s --flow src,dst --flows 2048 --idle 30s --block 5s " +
    "--filter 'proto=tcp dport=443' --filter dst=10.0.0.1 --every 10 --min-gap 100us --interval 5s --by host --records --device a=eth0 --transit b=10.1.0.0/16,10.2.0.0/16 --waypoint r3 --router r1 --router r2 --point load:burst=1s,size=5@a,role=edge " +
    "--trace=-1s --start 2027-01-01T09:00:00Z --duration 1d --cron '0 9 * * 1-5' --tz Europe/Berlin <<'END'\nsampling_for: {\"a\":{\"random\":3}}\nEND");
});

it("changes by the whole specification", () => {
  expect(changeCommand(fullSpec)).toContain("pillion session change x - <<'END'\nname: \"x\"\nsources: [\"site=north\",\"a\"]\n");
  expect(changeCommand(fullSpec)).toContain('\nduration: "1d"\n');
  expect(changeCommand(fullSpec)).toContain('\ntrace: "-1s"\n');
});

describe("every field appears", () => {
  it.each(SessionSpecSchema.fields.map((f) => [f.name, f] as const))("%s", (name, field) => {
    const without = clone(SessionSpecSchema, fullSpec);
    clearField(without, field);
    expect(createCommand(without, defaultSpec)).not.toBe(createCommand(fullSpec, defaultSpec));
    expect(changeCommand(fullSpec)).toContain(`\n${name}: `);
  });
});
