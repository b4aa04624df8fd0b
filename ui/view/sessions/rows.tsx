// The form's section on rows: interval, granularity, packet records.
import { Choices, Field } from "../../part/field.tsx";
import { choicesOf } from "../../data/points.ts";
import { helpOf, Section, type Form } from "./section.tsx";

/** Interval, granularity and records. */
export function RowsSection({ form }: { form: Form }) {
  const { draft, change } = form;
  return (
    <Section title="Rows" id="rows">
      <Field id="f-interval" label="Interval" fault={form.fault("f-interval")} help={helpOf(form.setting("interval"), "With 1s, live figures are updated every second. Longer intervals store fewer rows and keep the quantiles.")}>
        {(a) => <input {...a} class="short" type="text" list="intervals" spellcheck={false} autocapitalize="none" value={draft.interval} onInput={(e) => change({ interval: e.currentTarget.value })} />}
      </Field>
      <datalist id="intervals">{["100ms", "1s", "5s", "10s", "1m", "5m"].map((v) => <option key={v} value={v} />)}</datalist>
      <Choices id="f-granularity" legend="One row per" value={draft.granularity} options={choicesOf(form.setting("granularity"))} fault={form.fault("f-granularity")} onChange={(granularity) => change({ granularity })} />
      <div>
        <label class="check" for="f-records"><input type="checkbox" id="f-records" checked={draft.records} aria-describedby="f-records-help" onChange={(e) => change({ records: e.currentTarget.checked })} /> Record every marked packet</label>
        <p class="field-help" id="f-records-help">One row per packet in the stream packets, for packet-level analysis.</p>
        {draft.records && <p class="caution" role="status">Expensive: 10,000 marked packets per second store 36 million rows per hour. Use sampling or short runs.</p>}
      </div>
    </Section>
  );
}
