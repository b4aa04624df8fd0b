// The form's inputs for settings that are known by their descriptions only.
import type { ComponentChildren } from "preact";
import { choicesOf } from "../../data/points.ts";
import { applies, capital, groupsOf, inGroup, titleOf } from "../../data/setting.ts";
import type { PointOption } from "../../gen/session_pb.ts";
import { Choices, Fault, Field, FieldGroup, ties } from "../../part/field.tsx";
import { helpOf, type Form } from "./section.tsx";

/** SettingFields has an input for each setting, settings of a group together, with further inputs of that group. */
export function SettingFields({ form, settings, further }: { form: Form; settings: readonly PointOption[]; further: Readonly<Record<string, ComponentChildren>> }) {
  const shown = (s: PointOption): boolean => applies(s, (name) => form.draft.settings[name]) || form.fault(idOf(s)) !== undefined;
  return <>{groupsOf(settings).map((group) => (
    <section class="setting-group" key={group} aria-labelledby={`settings-${group}`}>
      <h3 id={`settings-${group}`}>{capital(group)}</h3>
      <div class="setting-columns">
        {inGroup(settings, group).filter(shown).map((s) => <SettingField key={s.name} form={form} setting={s} />)}
        {further[group]}
      </div>
    </section>
  ))}</>;
}

const idOf = (s: PointOption): string => `f-${s.name.replaceAll("_", "-")}`;

/** SettingField is the input of one setting. */
function SettingField({ form, setting: s }: { form: Form; setting: PointOption }) {
  const id = idOf(s);
  const value = form.draft.settings[s.name] ?? "";
  const fault = form.fault(id);
  const change = (text: string): void => form.change({ settings: { ...form.draft.settings, [s.name]: text } });
  switch (s.type) {
    case "choice": return <Choices id={id} legend={titleOf(s)} value={value} options={listed(s, value)} fault={fault} help={helpOf(s, s.help)} onChange={change} />;
    case "list": return <ListField id={id} setting={s} value={value} fault={fault} onChange={change} />;
    case "switch": return (
      <div class="field">
        <label class="check" for={id}><input type="checkbox" {...ties(id, true, fault)} checked={value === "true"} onChange={(e) => change(String(e.currentTarget.checked))} /> {titleOf(s)}</label>
        <p class="field-help" id={`${id}-help`}>{s.help}</p>
        <Fault id={id} text={fault} />
      </div>
    );
    default: return (
      <Field id={id} label={titleOf(s)} fault={fault} help={helpOf(s, s.help)}>
        {(a) => <input {...a} class="short" type="text" inputMode={s.type === "integer" ? "numeric" : undefined} placeholder="default" spellcheck={false} autocapitalize="none" value={value} onInput={(e) => change(e.currentTarget.value)} />}
      </Field>
    );
  }
}

/** The choices, and the value if it is none of them. */
function listed(s: PointOption, value: string): ReturnType<typeof choicesOf> {
  const choices = choicesOf(s);
  return choices.some((c) => c.value === value) ? choices : [...choices, { value, label: value, help: undefined }];
}

function ListField({ id, setting: s, value, fault, onChange }: { id: string; setting: PointOption; value: string; fault: string | undefined; onChange(value: string): void }) {
  const chosen = value.split(",").filter(Boolean);
  const choose = (name: string, on: boolean): void => onChange([...s.choices, ...chosen.filter((c) => !s.choices.includes(c))].filter((c) => (c === name ? on : chosen.includes(c))).join(","));
  return (
    <FieldGroup id={id} legend={titleOf(s)} fault={fault} help={s.help || helpOf(s)}>
      {choicesOf(s).map((c) => (
        <label class="check" key={c.value}><input type="checkbox" checked={chosen.includes(c.value)} onChange={(e) => choose(c.value, e.currentTarget.checked)} />
          <span>{c.value}{c.help && <small class="soft">: {c.help}</small>}</span></label>
      ))}
    </FieldGroup>
  );
}
