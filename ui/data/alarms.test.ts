import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, test } from "vitest";
import { AlarmSchema, SilenceSchema } from "../gen/alarm_pb.ts";
import { inEffect, matchersOf, sorted, stateOf } from "./alarms.ts";

const alarm = (id: string, began: number, more = {}) => create(AlarmSchema, { id, began: timestampFromMs(began), labels: { alertname: "loss", source: "a", destination: "b", severity: "warning" }, ...more });

describe("alarms", () => {
  test("those that need attention come first, then the latest", () => {
    const list = [
      alarm("ended", 9000, { ended: timestampFromMs(9500) }), alarm("silenced", 8000, { silencedBy: ["s"] }),
      alarm("acknowledged", 7000, { acknowledgement: { by: "ann" } }), alarm("old", 1000), alarm("new", 2000),
    ];
    expect(sorted(list).map((a) => a.id)).toEqual(["new", "old", "acknowledged", "silenced", "ended"]);
    expect(sorted(list).map(stateOf)).toEqual(["active", "active", "acknowledged", "silenced", "ended"]);
  });
  test("a silence is suggested for the rule and the subject", () => {
    expect(matchersOf(alarm("x", 0))).toBe('alertname="loss"\nsource="a"\ndestination="b"');
  });
  test("expired silences are not in effect", () => {
    const s = (id: string, ends: number) => create(SilenceSchema, { id, ends: timestampFromMs(ends) });
    expect(inEffect([s("new", 5000), s("old", 1000)], 2000).map((one) => one.id)).toEqual(["new"]);
  });
});
