// The form's part on what is kept: how often a row, for what, and a row for each packet.
import { Choices, Field } from "../../part/field.tsx";
import { Section, type Form } from "./section.tsx";

const granularities = [
  { value: "flow", label: "Each flow", help: "Addresses, protocol and both ports: which connection suffers. Most rows." },
  { value: "host-port", label: "Each host and port", help: "Destination and its port: which service suffers. The many connections to one are put together." },
  { value: "host", label: "Each pair of hosts", help: "Addresses alone. Fewest rows; enough for delay and loss of the path." },
] as const;

/** Interval, granularity and records. */
export function RowsSection({ form }: { form: Form }) {
  const { draft, change } = form;
  return (
    <Section title="What is kept" id="rows">
      <Field id="f-interval" label="Interval of rows" fault={form.fault("f-interval")} help="From 100ms to 1h; 1s shows live figures each second. Longer intervals make fewer rows, and delay keeps its quantiles.">
        {(a) => <input {...a} class="short" type="text" list="intervals" spellcheck={false} autocapitalize="none" value={draft.interval} onInput={(e) => change({ interval: e.currentTarget.value })} />}
      </Field>
      <datalist id="intervals">{["100ms", "1s", "5s", "10s", "1m", "5m"].map((v) => <option key={v} value={v} />)}</datalist>
      <Choices id="f-granularity" legend="A row for" value={draft.granularity} options={granularities} fault={form.fault("f-granularity")} onChange={(granularity) => change({ granularity })} />
      <div>
        <label class="check" for="f-records"><input type="checkbox" id="f-records" checked={draft.records} aria-describedby="f-records-help" onChange={(e) => change({ records: e.currentTarget.checked })} /> Also a record of each marked packet</label>
        <p class="field-help" id="f-records-help">For analysis packet by packet, in the stream packets.</p>
        {draft.records && <p class="caution" role="status">This is costly: 10,000 marked packets a second make 36 million rows an hour. Sample, or keep runs short.</p>}
      </div>
    </Section>
  );
}
