// A setting that the page knows only by its description and by the field of the specification.
import { clone, create, createFileRegistry, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { GenMessage } from "@bufbuild/protobuf/codegenv2";
import { FieldDescriptorProtoSchema, FileDescriptorProtoSchema, FieldDescriptorProto_Label, FieldDescriptorProto_Type } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { file_session, PointOptionSchema, SessionSpecSchema, type SessionSpec } from "../gen/session_pb.ts";
import { createCommand } from "./command.ts";
import { defaultSpec, fullSpec } from "./defaults.fixture.ts";
import { draftOf, newDraft, specOf } from "./draft.ts";
import { differences, facts } from "./phrase.ts";
import { placeOf } from "./problem.ts";
import { applies, isSetting, settingFields, wordsOf } from "./setting.ts";

/** The specification with further fields of these types. */
function extended(fields: Record<string, FieldDescriptorProto_Type>): GenMessage<SessionSpec> {
  const file = clone(FileDescriptorProtoSchema, file_session.proto);
  const spec = file.messageType.find((m) => m.name === SessionSpecSchema.name);
  Object.entries(fields).forEach(([name, type], i) => spec?.field.push(create(FieldDescriptorProtoSchema, {
    name, jsonName: name.replaceAll(/_(.)/g, (_, c: string) => c.toUpperCase()), number: 900 + i, type, label: FieldDescriptorProto_Label.OPTIONAL,
    ...(type === FieldDescriptorProto_Type.MESSAGE && { typeName: ".google.protobuf.Duration" }),
  })));
  const find = (name: string) => file_session.dependencies.find((d) => d.proto.name === name)?.proto;
  return createFileRegistry(file, find).getMessage(SessionSpecSchema.typeName) as GenMessage<SessionSpec>;
}

const { UINT32, STRING, BOOL, MESSAGE } = FieldDescriptorProto_Type;

describe("a setting without any code for it", () => {
  it.each([
    ["dice_sides", UINT32, "6", "--dice-sides 6", "6 sides"],
    ["dice_name", STRING, "red", "--dice-name red", "red"],
    ["dice_rolls", BOOL, "true", "--dice-rolls", "true"],
    ["dice_pause", MESSAGE, "1m30s", "--dice-pause 1m30s", "1m30s"],
  ])("%s", (name, type, value, option, words) => {
    const schema = extended({ [name]: type });
    const usual = fromBinary(schema, toBinary(SessionSpecSchema, defaultSpec));
    const description = create(PointOptionSchema, { name, group: "dice", label: "dice", title: "the dice", ...(type === UINT32 && { words: { "*": "{} sides" } }) });
    const draft = newDraft(usual, ["a"], ["b"], schema);
    expect(draft.settings[name]).toBe(type === BOOL ? "false" : "");
    const { spec, faults } = specOf({ ...draft, settings: { ...draft.settings, [name]: value } }, schema);
    expect(faults).toEqual([]);
    expect(draftOf(spec, schema).settings[name]).toBe(value);
    expect(createCommand(spec, usual, schema)).toBe(`pillion session create --from a --to b --both ${option}`);
    expect(facts(spec, [description], schema).find((f) => f.label === "Dice")?.text).toBe(words);
    expect(placeOf(name, draft, schema)).toEqual({ id: `f-${name.replaceAll("_", "-")}`, section: "more" });
    expect(placeOf(name, draft)).toBeUndefined();
  });
});

it("input that cannot be parsed is a problem at its field", () => {
  const draft = newDraft(defaultSpec, ["a"], ["b"]);
  const { faults } = specOf({ ...draft, settings: { ...draft.settings, stamp_every: "x", idle: "soon" } });
  expect(faults.map((f) => f.field)).toEqual(["stamp_every", "idle"]);
});

it("each field of a specification is a setting or has a form of its own", () => {
  const { faults, spec } = specOf(draftOf(fullSpec));
  expect(faults).toEqual([]);
  expect(spec).toEqual(fullSpec);
  expect(settingFields().map((f) => f.name)).toContain("stamp_every");
  expect(["name", "both", "trace", "duration", "sampling", "modules", "start"].filter((name) => isSetting(name))).toEqual([]);
});

it("says what a value means", () => {
  const s = create(PointOptionSchema, { words: { "1": "one", "*": "{} of them" } });
  expect([wordsOf(s, "1"), wordsOf(s, "2"), wordsOf(s, ""), wordsOf(create(PointOptionSchema), "x")]).toEqual(["one", "2 of them", "none", "x"]);
});

it("is shown only where it has a meaning", () => {
  const [gap, lease] = [create(PointOptionSchema, { name: "hops_gap", label: "traced packets", only: "hops=ioam" }), create(PointOptionSchema, { name: "lease", label: "lease" })];
  expect([gap, lease].map((s) => applies(s, () => "traceroute"))).toEqual([false, true]);
  expect([gap, lease].map((s) => applies(s, (name) => (name === "hops" ? "ioam" : undefined)))).toEqual([true, true]);
  const block = create(PointOptionSchema, { name: "block", label: "blocks", only: "encoding=altmark" });
  expect(["altmark", "native", "shim,altmark,udp"].map((encoding) => applies(block, () => encoding))).toEqual([true, false, true]);
  const labels = (s: SessionSpec) => facts(s, [gap, lease]).map((f) => f.label);
  expect([defaultSpec, fullSpec].map((s) => labels(s).includes("Traced packets"))).toEqual([false, true]);
  expect(differences(defaultSpec, { ...defaultSpec, hops: "ioam" }, [gap])).toContainEqual({ label: "Traced packets", before: "none", after: "100ms" });
});
