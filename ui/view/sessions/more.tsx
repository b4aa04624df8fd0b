// The advanced options of the form.
import { allPackets, type SamplingDraft, type SamplingMode } from "../../data/draft.ts";
import { choicesOf } from "../../data/points.ts";
import { options } from "../../data/selector.ts";
import { Choices, Fault, Field, FieldGroup, ties } from "../../part/field.tsx";
import { Icon } from "../../part/icon.tsx";
import { Chips } from "./chips.tsx";
import { PointFields } from "./point-fields.tsx";
import { helpOf, Section, type Form } from "./section.tsx";
import { SamplingInputs } from "./traffic.tsx";

/** The choices, and the value if it is none of them. */
const listed = (choices: ReturnType<typeof choicesOf>, value: string) =>
  choices.some((c) => c.value === value) ? choices : [...choices, { value, label: value, help: undefined }];

/** Encoding, time stamps, authentication, address family, interfaces, sampling per source, routers, lease, tracing. */
export function MoreSection({ form, open, problems, onToggle }: { form: Form; open: boolean; problems: number; onToggle(open: boolean): void }) {
  const { draft, change } = form;
  return (
    <details class="more" open={open} onToggle={(e) => onToggle(e.currentTarget.open)}>
      <summary><span>Advanced</span><small>Encodings, time stamps, authentication, address family, interfaces, sampling per source, routers, further points, lease, path tracing</small>{problems > 0 && <span class="field-fault block">{problems === 1 ? "1 problem" : `${problems} problems`}</span>}</summary>
      <Section title="Measurement" id="more">
        <div class="two-sides plain">
          <Choices id="f-encoding" legend="Encodings" value={draft.encoding} options={listed(choicesOf(form.setting("encoding")), draft.encoding)} fault={form.fault("f-encoding")} onChange={(encoding) => change({ encoding })} />
          <Choices id="f-family" legend="Address family" value={draft.family} options={choicesOf(form.setting("family"))} fault={form.fault("f-family")} help="IPv6 packets carry marks in an extension header that other hosts skip." onChange={(family) => change({ family })} />
        </div>
        <Choices id="f-authentication" legend="Authentication of marks" value={draft.authentication} options={listed(choicesOf(form.setting("authentication")), draft.authentication)} fault={form.fault("f-authentication")}
          help={helpOf(form.setting("authentication"))} onChange={(authentication) => change({ authentication })} />
        <Devices form={form} />
        <SingleSources form={form} />
        <Chips id="f-routers" label="Routers" placeholder="none" values={draft.routers} items={options(form.agents).map((o) => ({ value: o.selector, label: o.selector, note: o.kind === "agent" ? "" : "label" }))}
          fault={form.fault("f-routers")} help="Hosts that forward the packets. The pair view shows the delays inside them." onChange={(routers) => change({ routers })} />
        <PointFields form={form} />
        <div class="two-sides plain">
          <Field id="f-stamp-every" label="Packets per time stamp" fault={form.fault("f-stamp-every")} help={helpOf(form.setting("stamp_every"), "Every packet is numbered. In a flow with fewer than 8 times as many packets per second, every packet has a time; 1 stamps every packet.")}>
            {(a) => <input {...a} class="short" type="text" inputMode="numeric" value={draft.stampEvery} onInput={(e) => change({ stampEvery: e.currentTarget.value })} />}
          </Field>
          <div class="field">
            <label class="check" for="f-sparse-marks"><input type="checkbox" {...ties("f-sparse-marks", true, form.fault("f-sparse-marks"))} checked={draft.sparseMarks} onChange={(e) => change({ sparseMarks: e.currentTarget.checked })} /> Mark only packets with a time stamp</label>
            <p class="field-help" id="f-sparse-marks-help">The other packets are counted, which costs least. Loss is exact from one mark to the next, but neither duplicates nor reordering are detected.</p>
            <Fault id="f-sparse-marks" text={form.fault("f-sparse-marks")} />
          </div>
          <Field id="f-lease" label="Lease" fault={form.fault("f-lease")} help={helpOf(form.setting("lease"), "A short lease stops marking sooner, a long one bridges short outages.")}>
            {(a) => <input {...a} class="short" type="text" spellcheck={false} autocapitalize="none" value={draft.lease} onInput={(e) => change({ lease: e.currentTarget.value })} />}
          </Field>
          <div class="field">
            <label class="check" for="f-tracing"><input type="checkbox" {...ties("f-tracing", false, form.fault("f-tracing"))} checked={draft.tracing} onChange={(e) => change({ tracing: e.currentTarget.checked })} /> Trace the paths between the pairs</label>
            <Fault id="f-tracing" text={form.fault("f-tracing")} />
            {draft.tracing && (
              <Field id="f-trace" label="Trace interval" fault={form.fault("f-trace")} help={helpOf(form.setting("trace"), "A trace sends a few small packets to each router on the path; the topology is built from them.")}>
                {(a) => <input {...a} class="short" type="text" spellcheck={false} autocapitalize="none" value={draft.trace} onInput={(e) => change({ trace: e.currentTarget.value })} />}
              </Field>
            )}
          </div>
        </div>
      </Section>
    </details>
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

function Devices({ form }: { form: Form }) {
  const { draft, change } = form;
  const set = (i: number, patch: Partial<(typeof draft.device)[number]>): void => change({ device: draft.device.map((d, j) => (j === i ? { ...d, ...patch } : d)) });
  return (
    <FieldGroup id="f-device" legend="Interfaces" fault={form.fault("f-device")} help="By default an agent uses the interface of its route to the peer. Override it if that is wrong, or to keep two sessions apart.">
      {draft.device.map((d, i) => {
        const id = `f-device-${i}`;
        const fault = form.fault(id);
        return (
          <div key={i} role="group" aria-label={`Interface ${i + 1}`}>
            <div class="row align-bottom">
              <AgentSelect id={id} form={form} label="Agent" value={d.agent} fault={fault} onChange={(agent) => set(i, { agent })} />
              <label>Interface<input type="text" list={`${id}-names`} spellcheck={false} autocapitalize="none" aria-describedby={fault && `${id}-fault`} aria-invalid={fault ? true : undefined} value={d.device} onInput={(e) => set(i, { device: e.currentTarget.value })} /></label>
              <datalist id={`${id}-names`}>{form.agents.find((a) => a.name === d.agent)?.interfaces.map((n) => <option key={n.name} value={n.name} />)}</datalist>
              <button type="button" class="quiet icon-only" aria-label={`Remove interface ${i + 1}`} onClick={() => change({ device: draft.device.filter((_, j) => j !== i) })}><Icon name="trash" /></button>
            </div>
            <Fault id={id} text={fault} />
          </div>
        );
      })}
      <div><button type="button" onClick={() => change({ device: [...draft.device, { agent: "", device: "" }] })}><Icon name="plus" /> Add an interface</button></div>
    </FieldGroup>
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
                  <option value="all">every packet</option><option value="every">1 in N, by count</option><option value="random">1 in N, at random</option>
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
