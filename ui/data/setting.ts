// The settings of a specification that are known by their descriptions only: single values,
// which the form, the command line and the lists of facts show without code of their own.
import { ScalarType, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import { DurationSchema, type Duration } from "@bufbuild/protobuf/wkt";
import { SessionSpecSchema, type PointOption } from "../gen/session_pb.ts";
import { spanText } from "./length.ts";
import { nanos } from "./time.ts";

/** Single values that have a form of their own. */
const own = new Set(["name", "both", "interval", "granularity", "records", "trace", "start", "duration", "cron", "time_zone"]);

/** The type of a setting's value; undefined: the field is not a setting. */
function kindOf(f: DescField): "text" | "integer" | "switch" | "duration" | undefined {
  if (own.has(f.name)) return undefined;
  if (f.fieldKind === "message") return f.message.typeName === DurationSchema.typeName ? "duration" : undefined;
  if (f.fieldKind !== "scalar") return undefined;
  return f.scalar === ScalarType.STRING ? "text" : f.scalar === ScalarType.UINT32 ? "integer" : f.scalar === ScalarType.BOOL ? "switch" : undefined;
}

/** The fields of a specification that are settings, by name. */
export const settingFields = (schema: DescMessage = SessionSpecSchema): DescField[] => schema.fields.filter((f) => kindOf(f) !== undefined);

/** Reports whether a field of a specification is a setting. */
export const isSetting = (name: string, schema: DescMessage = SessionSpecSchema): boolean => settingFields(schema).some((f) => f.name === name);

/** Values as typed, by the name of the setting. */
export type SettingTexts = Record<string, string>;

const valueOf = (message: Message, f: DescField): unknown => (message as unknown as Record<string, unknown>)[f.localName];

/** The value of a setting as text; empty: it has none. */
export function settingText(message: Message, f: DescField): string {
  const value = valueOf(message, f);
  switch (kindOf(f)) {
    case "integer": return value ? String(value) : "";
    case "duration": {
      const ns = nanos(value as Duration | undefined);
      return ns ? spanText(ns) : "";
    }
    default: return String(value ?? "");
  }
}

/** The values of all settings. */
export const settingTexts = (message: Message, schema: DescMessage = SessionSpecSchema): SettingTexts =>
  Object.fromEntries(settingFields(schema).map((f) => [f.name, settingText(message, f)]));

/** What reads input and collects what cannot be parsed. */
export interface SettingReader {
  span(field: string, text: string): Duration | undefined;
  count(field: string, text: string): number | undefined;
}

/** The fields of a specification for values as typed. */
export function settingValues(texts: SettingTexts, r: SettingReader, schema: DescMessage = SessionSpecSchema): Record<string, unknown> {
  return Object.fromEntries(settingFields(schema).map((f) => {
    const text = texts[f.name] ?? "";
    const kind = kindOf(f);
    return [f.localName, kind === "integer" ? r.count(f.name, text) ?? 0 : kind === "duration" ? r.span(f.name, text) : kind === "switch" ? text === "true" : text.trim()];
  }));
}

/** The options of the command line for the settings that are not the usual ones. */
export function settingFlags(message: Message, usual: Message | undefined, schema: DescMessage = SessionSpecSchema): string[][] {
  return settingFields(schema).flatMap((f) => {
    const text = settingText(message, f);
    const name = `--${f.name.replaceAll("_", "-")}`;
    if (text === "" || text === (usual ? settingText(usual, f) : undefined)) return [];
    if (kindOf(f) === "switch") return text === "true" ? [[name]] : [];
    return [[name, text]];
  });
}

/** The settings of a group, in their order. */
export const inGroup = (settings: readonly PointOption[], group: string): PointOption[] => settings.filter((s) => s.group === group);

/** The groups of settings, in their order. */
export const groupsOf = (settings: readonly PointOption[]): string[] => [...new Set(settings.map((s) => s.group).filter(Boolean))];

/** Reports whether a setting has a meaning beside the values of the others. */
export function applies(s: PointOption, valueOfSetting: (name: string) => string | undefined): boolean {
  const [name = "", value] = s.only.split("=");
  return s.only === "" || (valueOfSetting(name) ?? "").split(",").includes(value ?? "");
}

/** What a value means. */
export function wordsOf(s: PointOption, value: string): string {
  return s.words[value] ?? (value === "" ? "none" : (s.words["*"]?.replaceAll("{}", value) ?? value));
}

/** A text with a capital letter. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** The settings of a specification that have a meaning in it, with labels. Without descriptions, the names of the fields are the labels. */
export function settingFacts(message: Message, settings: readonly PointOption[], schema: DescMessage = SessionSpecSchema): { label: string; text: string }[] {
  const texts = settingTexts(message, schema);
  return settingFields(schema).flatMap((f) => {
    const s = settings.find((one) => one.name === f.name);
    const text = texts[f.name] ?? "";
    if (s && !applies(s, (name) => texts[name])) return [];
    return s ? { label: capital(s.label), text: wordsOf(s, text).replace(/,(?=\S)/g, ", ") } : { label: capital(f.name.replaceAll("_", " ")), text: text || "none" };
  });
}

/** The label of a setting's input. */
export const titleOf = (s: PointOption): string => capital(s.title);

