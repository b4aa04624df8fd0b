// The form's sections on metrics, traffic and sampling.
import type { SamplingDraft } from "../../data/draft.ts";
import { emptyFilter, filterText, protocols, type FilterRow } from "../../data/filter.ts";
import { modules } from "../../data/points.ts";
import { useResource } from "../../data/resource.ts";
import type { Point } from "../../gen/session_pb.ts";
import { Choices, Fault, Field, FieldGroup, ties } from "../../part/field.tsx";
import { Icon } from "../../part/icon.tsx";
import { Section, type Form } from "./section.tsx";

/** A check box for each module of marks, and for what is chosen without being known. */
function Modules({ form: { draft, change, fault } }: { form: Form }) {
  const known = useResource(modules).value.value ?? [];
  return <ModuleChoice known={known} chosen={draft.modules} fault={fault("f-modules")} onChange={(chosen) => change({ modules: chosen })} />;
}

/** The check boxes of modules that are known by their descriptors. */
export function ModuleChoice({ known, chosen, fault, onChange }: { known: readonly Point[]; chosen: readonly string[]; fault: string | undefined; onChange(chosen: string[]): void }) {
  const names = [...known.map((m) => m.name), ...chosen.filter((name) => !known.some((m) => m.name === name))];
  const choose = (name: string, on: boolean): void => onChange(on ? [...chosen, name] : chosen.filter((m) => m !== name));
  return (
    <FieldGroup id="f-modules" legend="Metrics" fault={fault} help="Each metric adds a few bytes to the mark; the plan shows how many.">
      {names.map((name) => {
        const m = known.find((one) => one.name === name);
        return (
          <label class="check" key={name}><input type="checkbox" checked={chosen.includes(name)} onChange={(e) => choose(name, e.currentTarget.checked)} />
            <span>{m ? capital(m.doc) : name}{m?.cost && <small class="soft">, {costWords(m.cost)}</small>}</span></label>
        );
      })}
    </FieldGroup>
  );
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** What a module costs in a mark; the plan has the rest. */
const costWords = (cost: string): string => cost.split(",", 1)[0] ?? "";

/** Delay, loss, and filters. */
export function TrafficSection({ form }: { form: Form }) {
  const { draft, change } = form;
  const set = (i: number, patch: Partial<FilterRow>): void => change({ filters: draft.filters.map((f, j) => (j === i ? { ...f, ...patch } : f)) });
  return (
    <Section title="Traffic" id="traffic">
      <Modules form={form} />
      <FieldGroup id="f-filters" legend="Filters" fault={form.fault("f-filters")}
        help={draft.filters.length === 0 ? "All traffic between the hosts. Add a filter to measure only part of it; other traffic is not touched." : "Packets that match any of these filters. An empty field matches everything."}>
        {draft.filters.map((row, i) => <FilterLine key={i} i={i} row={row} form={form} set={(patch) => set(i, patch)} remove={() => change({ filters: draft.filters.filter((_, j) => j !== i) })} />)}
        <div><button type="button" onClick={() => change({ filters: [...draft.filters, emptyFilter()] })}><Icon name="plus" /> Add a filter</button></div>
        <datalist id="protocols">{protocols.map((p) => <option key={p} value={p} />)}</datalist>
      </FieldGroup>
    </Section>
  );
}

function FilterLine({ i, row, form, set, remove }: { i: number; row: FilterRow; form: Form; set(patch: Partial<FilterRow>): void; remove(): void }) {
  const id = `f-filter-${i}`;
  const fault = form.fault(id);
  const input = (name: keyof FilterRow, label: string, placeholder: string, first = false) => (
    <label class={name}>{label}
      <input {...(first ? ties(id, false, fault) : { "aria-invalid": fault ? true : undefined, "aria-describedby": fault && `${id}-fault` })} type="text" autocomplete="off" spellcheck={false} autocapitalize="none"
        inputMode={name === "sport" || name === "dport" ? "numeric" : undefined} list={name === "proto" ? "protocols" : undefined}
        placeholder={placeholder} value={row[name]} onInput={(e) => set({ [name]: e.currentTarget.value })} />
    </label>
  );
  return (
    <div class="filter" role="group" aria-label={`Filter ${i + 1}`}>
      <div class="filter-parts">
        {input("proto", "Protocol", "any", true)}
        {input("src", "Source address or prefix", "any")}
        {input("sport", "Source port", "any")}
        {input("dst", "Destination address or prefix", "any")}
        {input("dport", "Destination port", "any")}
        <button type="button" class="quiet icon-only" aria-label={`Remove filter ${i + 1}`} title="Remove" onClick={remove}><Icon name="trash" /></button>
      </div>
      <Fault id={id} text={fault} />
      {filterText(row) && <p class="field-help">Command-line form: <code>{filterText(row)}</code></p>}
    </div>
  );
}

const modes = [
  { value: "all", label: "Every packet", help: "Exact counts. Every packet carries a mark." },
  { value: "every", label: "1 in N packets of each flow, by count", help: "Evenly spread. Biased for periodic traffic." },
  { value: "random", label: "1 in N packets, at random", help: "Unbiased for any traffic." },
  { value: "hash", label: "1 in N packets, by content", help: "Sources with the same seed select the same packets. Packets of equal content are all selected or all left out." },
] as const;

/** Inputs of one sampling: N and the minimum gap. */
export function SamplingInputs({ id, sampling, form, set }: { id: string; sampling: SamplingDraft; form: Form; set(patch: Partial<SamplingDraft>): void }) {
  return (
    <div class="row align-top">
      {sampling.mode !== "all" && (
        <Field id={`${id}-n`} label="N" fault={form.fault(`${id}-n`)}>
          {(a) => <input {...a} class="short" type="text" inputMode="numeric" value={sampling.n} onInput={(e) => set({ n: e.currentTarget.value })} />}
        </Field>
      )}
      {sampling.mode === "hash" && (
        <Field id={`${id}-seed`} label="Seed" fault={form.fault(`${id}-seed`)} help="Any text. Another seed makes the selection independent.">
          {(a) => <input {...a} class="short" type="text" placeholder="none" spellcheck={false} autocapitalize="none" value={sampling.seed ?? ""} onInput={(e) => set({ seed: e.currentTarget.value })} />}
        </Field>
      )}
      <Field id={`${id}-gap`} label="Minimum gap" fault={form.fault(`${id}-gap`)} help="Minimum time between two marked packets, such as 100us; empty for none. Limits the overhead at high packet rates.">
        {(a) => <input {...a} class="short" type="text" placeholder="none" spellcheck={false} autocapitalize="none" value={sampling.gap} onInput={(e) => set({ gap: e.currentTarget.value })} />}
      </Field>
    </div>
  );
}

/** Which of the matching packets are marked. */
export function SamplingSection({ form }: { form: Form }) {
  const { draft, change } = form;
  const set = (patch: Partial<SamplingDraft>): void => change({ sampling: { ...draft.sampling, ...patch } });
  return (
    <Section title="Sampling" id="sampling">
      <Choices id="f-sampling" legend="Marked packets" value={draft.sampling.mode} options={modes} fault={form.fault("f-sampling")} onChange={(mode) => set({ mode })}>
        <SamplingInputs id="f-sampling" sampling={draft.sampling} form={form} set={set} />
      </Choices>
    </Section>
  );
}
