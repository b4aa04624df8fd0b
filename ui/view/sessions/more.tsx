// The advanced options of the form.
import { allPackets, type SamplingDraft, type SamplingMode } from "../../data/draft.ts";
import { options } from "../../data/selector.ts";
import type { PointOption } from "../../gen/session_pb.ts";
import { Fault, Field, FieldGroup, ties } from "../../part/field.tsx";
import { Icon } from "../../part/icon.tsx";
import { Chips } from "./chips.tsx";
import { PointFields } from "./point-fields.tsx";
import { helpOf, Section, type Form } from "./section.tsx";
import { SettingFields } from "./settings.tsx";
import { SamplingInputs } from "./traffic.tsx";

/** What the section has. */
const summary = (settings: readonly PointOption[]): string => {
  const text = [...settings.filter((s) => s.group).map((s) => s.label), "interfaces", "hosts behind agents", "waypoints", "sampling per source", "routers", "further points", "path tracing"].join(", ");
  return text.charAt(0).toUpperCase() + text.slice(1);
};

/** The settings, interfaces, hosts behind agents, waypoints, sampling per source, routers, further points, tracing. */
export function MoreSection({ form, settings, open, problems, onToggle }: { form: Form; settings: readonly PointOption[]; open: boolean; problems: number; onToggle(open: boolean): void }) {
  const { draft, change } = form;
  return (
    <details class="more" open={open} onToggle={(e) => onToggle(e.currentTarget.open)}>
      <summary><span>Advanced</span><small>{summary(settings)}</small>{problems > 0 && <span class="field-fault block">{problems === 1 ? "1 problem" : `${problems} problems`}</span>}</summary>
      <Section title="Measurement" id="more">
        <SettingFields form={form} settings={settings} further={{ paths: <Tracing form={form} /> }} />
        <h3>Agents</h3>
        <Devices form={form} />
        <Transit form={form} />
        <SingleSources form={form} />
        <h3>Further measurements</h3>
        <Chips id="f-waypoints" label="Waypoints" placeholder="none" values={draft.waypoints} items={options(form.agents).map((o) => ({ value: o.selector, label: o.selector, note: o.kind === "agent" ? "" : "label" }))}
          fault={form.fault("f-waypoints")} help="Hosts that forward the packets: one-way delay is measured up to the waypoint, and from there on. Not with options of UDP or TCP." onChange={(waypoints) => change({ waypoints })} />
        <Chips id="f-routers" label="Routers" placeholder="none" values={draft.routers} items={options(form.agents).map((o) => ({ value: o.selector, label: o.selector, note: o.kind === "agent" ? "" : "label" }))}
          fault={form.fault("f-routers")} help="Hosts that forward the packets. The pair view shows the delays inside them." onChange={(routers) => change({ routers })} />
        <PointFields form={form} />
      </Section>
    </details>
  );
}

function Tracing({ form }: { form: Form }) {
  const { draft, change } = form;
  return (
    <div class="field">
      <label class="check" for="f-tracing"><input type="checkbox" {...ties("f-tracing", false, form.fault("f-tracing"))} checked={draft.tracing} onChange={(e) => change({ tracing: e.currentTarget.checked })} /> Trace the paths between the pairs</label>
      <Fault id="f-tracing" text={form.fault("f-tracing")} />
      {draft.tracing && (
        <Field id="f-trace" label="Trace interval" fault={form.fault("f-trace")} help={helpOf(form.setting("trace"), "A trace sends a few small packets to each router on the path; the topology is built from them.")}>
          {(a) => <input {...a} class="short" type="text" spellcheck={false} autocapitalize="none" value={draft.trace} onInput={(e) => change({ trace: e.currentTarget.value })} />}
        </Field>
      )}
    </div>
  );
}

function AgentSelect({ id, form, value, fault, label, onChange }: { id: string; form: Form; value: string; fault: string | undefined; label: string; onChange(agent: string): void }) {
  return (
    <label>{label}
      <select {...ties(id, false, fault)} value={value} onChange={(e) => onChange(e.currentTarget.value)}>
        <option value="">choose</option>
        {value && !form.agents.some((a) => a.name === value) && <option value={value}>{value}</option>}
        {form.agents.map((a) => <option key={a.name} value={a.name}>{a.name}</option>)}
      </select>
    </label>
  );
}

interface TextByAgent { agent: string; text: string }

interface TextsByAgentProps {
  form: Form;
  id: string;
  legend: string;
  /** What one row is. */
  noun: string;
  label: string;
  help: string;
  rows: TextByAgent[];
  /** Texts to choose from. */
  known?(agent: string): string[];
  onChange(rows: TextByAgent[]): void;
}

function TextsByAgent({ form, id, legend, noun, label, help, rows, known, onChange }: TextsByAgentProps) {
  const set = (i: number, patch: Partial<TextByAgent>): void => onChange(rows.map((row, j) => (j === i ? { ...row, ...patch } : row)));
  const name = noun.charAt(0).toUpperCase() + noun.slice(1);
  return (
    <FieldGroup id={id} legend={legend} fault={form.fault(id)} help={help}>
      {rows.map((row, i) => {
        const at = `${id}-${i}`;
        const fault = form.fault(at);
        return (
          <div key={i} role="group" aria-label={`${name} ${i + 1}`}>
            <div class="row align-bottom">
              <AgentSelect id={at} form={form} label="Agent" value={row.agent} fault={fault} onChange={(agent) => set(i, { agent })} />
              <label>{label}<input type="text" list={known && `${at}-names`} spellcheck={false} autocapitalize="none" aria-describedby={fault && `${at}-fault`} aria-invalid={fault ? true : undefined} value={row.text} onInput={(e) => set(i, { text: e.currentTarget.value })} /></label>
              {known && <datalist id={`${at}-names`}>{known(row.agent).map((n) => <option key={n} value={n} />)}</datalist>}
              <button type="button" class="quiet icon-only" aria-label={`Remove ${noun} ${i + 1}`} onClick={() => onChange(rows.filter((_, j) => j !== i))}><Icon name="trash" /></button>
            </div>
            <Fault id={at} text={fault} />
          </div>
        );
      })}
      <div><button type="button" onClick={() => onChange([...rows, { agent: "", text: "" }])}><Icon name="plus" /> Add {/^[aeiou]/.test(noun) ? "an" : "a"} {noun}</button></div>
    </FieldGroup>
  );
}

function Devices({ form }: { form: Form }) {
  const { draft, change } = form;
  return (
    <TextsByAgent form={form} id="f-device" legend="Interfaces" noun="interface" label="Interface" help="By default an agent uses the interface of its route to the peer. Override it if that is wrong, or to keep two sessions apart."
      rows={draft.device.map(({ agent, device }) => ({ agent, text: device }))} known={(agent) => form.agents.find((a) => a.name === agent)?.interfaces.map((n) => n.name) ?? []}
      onChange={(rows) => change({ device: rows.map(({ agent, text }) => ({ agent, device: text })) })} />
  );
}

function Transit({ form }: { form: Form }) {
  const { draft, change } = form;
  return (
    <TextsByAgent form={form} id="f-transit" legend="Hosts behind agents" noun="router" label="Prefixes, separated by commas"
      help="An agent on a router can measure the packets that it forwards for hosts without an agent, in place of its own. The policy of its host has to allow these prefixes."
      rows={draft.transit.map(({ agent, prefixes }) => ({ agent, text: prefixes }))}
      onChange={(rows) => change({ transit: rows.map(({ agent, text }) => ({ agent, prefixes: text })) })} />
  );
}

function SingleSources({ form }: { form: Form }) {
  const { draft, change } = form;
  const set = (i: number, agent: string, sampling: Partial<SamplingDraft>): void =>
    change({ samplingFor: draft.samplingFor.map((s, j) => (j === i ? { agent, sampling: { ...s.sampling, ...sampling } } : s)) });
  return (
    <FieldGroup id="f-sampling-for" legend="Sampling per source" fault={form.fault("f-sampling-for")} help="A busy host can mark fewer packets than others.">
      {draft.samplingFor.map((s, i) => {
        const id = `f-sampling-for-${i}`;
        const fault = form.fault(id);
        return (
          <div class="filter" key={i} role="group" aria-label={`Source ${i + 1}`}>
            <div class="row align-bottom">
              <AgentSelect id={id} form={form} label="Source" value={s.agent} fault={fault} onChange={(agent) => set(i, agent, {})} />
              <label>Packets
                <select value={s.sampling.mode} onChange={(e) => set(i, s.agent, { mode: e.currentTarget.value as SamplingMode })}>
                  <option value="all">every packet</option><option value="every">1 in N, by count</option><option value="random">1 in N, at random</option><option value="hash">1 in N, by content</option>
                </select>
              </label>
              <button type="button" class="quiet icon-only" aria-label={`Remove source ${i + 1}`} onClick={() => change({ samplingFor: draft.samplingFor.filter((_, j) => j !== i) })}><Icon name="trash" /></button>
            </div>
            <Fault id={id} text={fault} />
            <SamplingInputs id={id} sampling={s.sampling} form={form} set={(patch) => set(i, s.agent, patch)} />
          </div>
        );
      })}
      <div><button type="button" onClick={() => change({ samplingFor: [...draft.samplingFor, { agent: "", sampling: { ...allPackets(), mode: "every" } }] })}><Icon name="plus" /> Add a source</button></div>
    </FieldGroup>
  );
}
