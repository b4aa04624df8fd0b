// The form's first section: name, sources and destinations.
import { options, selected } from "../../data/selector.ts";
import { Field } from "../../part/field.tsx";
import { Icon } from "../../part/icon.tsx";
import { Chips, type Item } from "./chips.tsx";
import { Section, type Form } from "./section.tsx";

const few = 6;

/** Names of some, and how many more. */
export function someOf(names: readonly string[]): string {
  if (names.length <= few) return names.join(", ");
  return `${names.slice(0, few - 1).join(", ")} and ${names.length - few + 1} more`;
}

function now(selectors: string[], form: Form): string {
  const found = [...new Set(selectors.flatMap((s) => selected(s, form.agents).map((a) => a.name)))].sort();
  if (selectors.length === 0) return "";
  return found.length === 0 ? "No agents match now." : `Matches ${found.length === 1 ? "1 agent" : `${found.length} agents`} now: ${someOf(found)}.`;
}

/** Name, sources, destinations and directions. */
export function WhoSection({ form, fixed }: { form: Form; fixed: boolean }) {
  const { draft, change } = form;
  const items: Item[] = options(form.agents).map((o) => ({
    value: o.selector,
    label: o.kind === "all" ? "* (all agents)" : o.selector,
    note: o.kind === "agent" ? stateOf(form, o.selector) : o.kind === "label" ? `label, matches ${someOf(o.agents)}` : "including agents that join later",
  }));
  const help = (selectors: string[], what: string): string => now(selectors, form) || what;
  return (
    <Section title="Hosts" id="who">
      <Field id="f-name" label="Name" fault={form.fault("f-name")} help={fixed ? "The name of a session cannot be changed." : "Lowercase letters, digits and inner hyphens. Also identifies the session's rows in the archive."}>
        {(a) => <input {...a} type="text" autocomplete="off" spellcheck={false} autocapitalize="none" maxLength={63} value={draft.name} readOnly={fixed} aria-required="true"
          onInput={(e) => change({ name: e.currentTarget.value, named: true })} onBlur={(e) => { if (!fixed && e.currentTarget.value.trim() === "") change({ name: "", named: false }); }} />}
      </Field>
      <div class="two-sides">
        <Chips id="f-sources" label="Sources" placeholder="agents or labels, * for all" values={draft.sources} items={items} fault={form.fault("f-sources")}
          help={help(draft.sources, "Agents that mark outgoing packets. Select them by name or label; agents that get the label later are included.")} onChange={(sources) => change({ sources })} />
        <button type="button" class="quiet icon-only swap" aria-label="Swap sources and destinations" title="Swap sources and destinations"
          onClick={() => change({ sources: draft.destinations, destinations: draft.sources })}><Icon name="swap" /></button>
        <Chips id="f-destinations" label="Destinations" placeholder="agents or labels, * for all" values={draft.destinations} items={items} fault={form.fault("f-destinations")}
          help={help(draft.destinations, "Agents that read the marks, remove them and pass the packets on. Every source is paired with every destination except itself.")} onChange={(destinations) => change({ destinations })} />
      </div>
      <div>
        <label class="check" for="f-both"><input type="checkbox" id="f-both" checked={draft.both} aria-describedby="f-both-help" onChange={(e) => change({ both: e.currentTarget.checked })} /> Measure both directions</label>
        <p class="field-help" id="f-both-help">Every host is source and destination, so delays are known for each direction separately. Doubles the rows.</p>
      </div>
    </Section>
  );
}

function stateOf(form: Form, name: string): string {
  const agent = form.agents.find((a) => a.name === name);
  const labels = Object.entries(agent?.labels ?? {}).map(([k, v]) => `${k}=${v}`).sort().join(" ");
  return [agent?.state !== "connected" && agent?.state, labels].filter(Boolean).join(", ");
}
