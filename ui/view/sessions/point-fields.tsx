// The form's fields for points, which follow from their descriptors.
import type { PointDraft } from "../../data/draft.ts";
import { points } from "../../data/points.ts";
import { useResource } from "../../data/resource.ts";
import { options } from "../../data/selector.ts";
import type { PointOption } from "../../gen/session_pb.ts";
import { Fault, Field, FieldGroup, ties } from "../../part/field.tsx";
import { Icon } from "../../part/icon.tsx";
import { Chips } from "./chips.tsx";
import { helpOf, type Form } from "./section.tsx";

/** PointFields adds points, with their agents and options. The router has a field of its own. */
export function PointFields({ form }: { form: Form }) {
  const { draft, change } = form;
  const known = useResource(points).value.value ?? [];
  const names = known.map((p) => p.name).filter((name) => name !== "router");
  if (names.length === 0 && draft.points.length === 0) return null;
  const set = (i: number, patch: Partial<PointDraft>): void => change({ points: draft.points.map((p, j) => (j === i ? { ...p, ...patch } : p)) });
  return (
    <FieldGroup id="f-points" legend="Further points" fault={form.fault("f-points")} help="Other measurements that run with the session.">
      {draft.points.map((p, i) => {
        const id = `f-point-${i}`;
        const point = known.find((k) => k.name === p.name);
        return (
          <div class="filter" key={i} role="group" aria-label={`Point ${i + 1}`}>
            <div class="row align-bottom">
              <label>Point
                <select {...ties(id, Boolean(point), form.fault(id))} value={p.name} onChange={(e) => set(i, { name: e.currentTarget.value, agents: [], options: {} })}>
                  {[...new Set([...names, p.name])].map((name) => <option key={name} value={name}>{name}</option>)}
                </select>
              </label>
              <button type="button" class="quiet icon-only" aria-label={`Remove point ${i + 1}`} onClick={() => change({ points: draft.points.filter((_, j) => j !== i) })}><Icon name="trash" /></button>
            </div>
            <Fault id={id} text={form.fault(id)} />
            {point && <p class="field-help" id={`${id}-help`}>{point.doc}.</p>}
            {point?.placement === "agents" && (
              <Chips id={`${id}-agents`} label="Agents" placeholder="agents or labels, * for all" values={p.agents} items={options(form.agents).map((o) => ({ value: o.selector, label: o.selector }))}
                fault={form.fault(`${id}-agents`)} onChange={(agents) => set(i, { agents })} />
            )}
            {point?.options.map((o) => (
              <Field key={o.name} id={`${id}-${o.name}`} label={o.name.replaceAll("_", " ")} fault={form.fault(`${id}-${o.name}`)} help={helpOf(o)}>
                {(a) => <OptionInput ties={a} option={o} value={p.options[o.name] ?? o.default} onChange={(value) => set(i, { options: { ...p.options, [o.name]: value } })} />}
              </Field>
            ))}
          </div>
        );
      })}
      {names.length > 0 && <div><button type="button" onClick={() => change({ points: [...draft.points, { name: names[0] ?? "", agents: [], options: {} }] })}><Icon name="plus" /> Add a point</button></div>}
    </FieldGroup>
  );
}

function OptionInput({ ties: a, option: o, value, onChange }: { ties: ReturnType<typeof ties>; option: PointOption; value: string; onChange(value: string): void }) {
  const choices = o.type === "switch" ? ["true", "false"] : o.choices;
  if (choices.length > 0) return <select {...a} value={value} onChange={(e) => onChange(e.currentTarget.value)}>{choices.map((c) => <option key={c} value={c}>{o.type === "switch" ? (c === "true" ? "yes" : "no") : c}</option>)}</select>;
  return <input {...a} class="short" type="text" inputMode={o.type === "integer" ? "numeric" : undefined} spellcheck={false} autocapitalize="none" value={value} onInput={(e) => onChange(e.currentTarget.value)} />;
}
