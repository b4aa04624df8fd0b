import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ServiceLevelSchema, type ServiceLevel } from "../gen/flow_pb.ts";
import { sorted } from "../view/levels/table.tsx";
import { faultsOf } from "../view/levels/bar.tsx";
import { queryOf, questionOf } from "../view/levels/look.ts";
import { countLevels, levelsFile, monthAfter, monthRange, monthWords, percentOf, shareOf, worstOf } from "./levels.ts";

const level = (source: string, more: Omit<MessageInitShape<typeof ServiceLevelSchema>, "$typeName">): ServiceLevel =>
  create(ServiceLevelSchema, { source, destination: "z", availability: 1, loss: 0, delayNs: 1e6, ...more });

it("reads months of UTC", () => {
  expect(monthRange("2026-02")).toEqual([Date.UTC(2026, 1), Date.UTC(2026, 2)]);
  for (const text of ["", "2026-13", "2026-00", "2026-1", "1969-12", "2026-11-01"]) expect(monthRange(text), text).toBeUndefined();
  expect([monthAfter("2026-12", 1), monthAfter("2026-01", -1), monthWords("2026-11")]).toEqual(["2027-01", "2025-12", "November 2026"]);
});

it("reads percentages exactly", () => {
  expect([shareOf("99.9"), shareOf("100"), shareOf("0.1"), percentOf(0.999), percentOf(0.0001), percentOf(0)]).toEqual([0.999, 1, 0.001, "99.9", "0.01", ""]);
  for (const text of ["", "101", "-1", "1e1", "NaN", "0x1", "99,9"]) expect(shareOf(text), text).toBeUndefined();
});

it("keeps a question in the address", () => {
  const q = { month: "2026-09", scope: ["customer=acme", "a:b"], session: "s", availability: 0.999, loss: 0.001, quantile: 0.9, delayNs: 20e6, outage: 0.05 };
  const query = new URLSearchParams(Object.entries(queryOf(q)).filter((e): e is [string, string] => e[1] !== undefined));
  expect(questionOf({ words: ["levels"], query })).toEqual(q);
  const usual = questionOf({ words: ["levels"], query: new URLSearchParams("month=never&quantile=2&availability=x&delay=-1s") });
  expect(usual).toMatchObject({ scope: [], availability: 0, quantile: 0.99, delayNs: 0, outage: 0.2 });
  expect(Object.values(queryOf(usual)).every((v) => v === undefined)).toBe(true);
  expect(levelsFile("csv", q)).toBe("/service-levels?month=2026-09&format=csv&quantile=0.9&outage=0.05&scope=customer%3Dacme&scope=a%3Ab&session=s&availability=0.999&loss=0.001&delay_ns=20000000");
});

it("says what is wrong with a field", () => {
  const right = { month: "2026-09", scope: "", availability: "", delay: "", loss: "", outage: "20" };
  expect(faultsOf(right)).toEqual({});
  expect(Object.keys(faultsOf({ ...right, month: "9999-01", availability: "101", delay: "20", loss: "x", outage: "" }))).toEqual(["month", "availability", "loss", "outage", "delay"]);
});

it("judges a pair by its worst verdict, and shows these first", () => {
  const all = [level("a", { availabilityVerdict: "met", delayNs: NaN }), level("b", { availabilityVerdict: "met", lossVerdict: "undecided", delayNs: 3e6 }), level("c", { delayVerdict: "missed", lossVerdict: "undecided" }), level("d", {})];
  expect(all.map(worstOf)).toEqual(["met", "undecided", "missed", undefined]);
  expect(countLevels(all)).toEqual({ met: 1, missed: 1, undecided: 1 });
  const names = (list: ServiceLevel[]) => list.map((l) => l.source).join("");
  expect(names(sorted(all, undefined))).toBe("cbad");
  expect(names(sorted(all, { key: "delay", ascending: false }))).toBe("bcda");
  expect(names(sorted(all, { key: "pair", ascending: false }))).toBe("dcba");
});
