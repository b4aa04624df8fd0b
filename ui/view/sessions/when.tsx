// The form's section on the schedule.
import { cronOf, weekdays, type Repeat, type RepeatKind } from "../../data/cron.ts";
import type { WhenDraft } from "../../data/draft.ts";
import { ownZone, wallText, zones } from "../../data/zone.ts";
import { Choices, Field, FieldGroup, ties } from "../../part/field.tsx";
import { Icon } from "../../part/icon.tsx";
import { Section, type Form } from "./section.tsx";

const kinds = [
  { value: "now", label: "Now", help: "Starts when you submit the form." },
  { value: "once", label: "Once" },
  { value: "repeat", label: "Repeatedly", help: "At given times of the day, week or month." },
] as const;

/** Now, once or repeatedly; time zone; duration. */
export function WhenSection({ form }: { form: Form }) {
  const { draft, change } = form;
  const w = draft.when;
  const set = (patch: Partial<WhenDraft>): void => change({ when: { ...w, ...patch } });
  const choose = (kind: WhenDraft["kind"]): void => set({
    kind,
    start: kind === "once" && !w.start ? wallText(Math.ceil((Date.now() + 300_000) / 300_000) * 300_000, w.zone) : w.start,
    duration: kind === "repeat" && !w.duration ? "1h" : w.duration,
  });
  return (
    <Section title="Schedule" id="when">
      <Choices id="f-kind" legend="Start" value={w.kind} options={kinds} onChange={choose} />
      {w.kind === "once" && (
        <Field id="f-start" label="Date and time" fault={form.fault("f-start")}>
          {(a) => <input {...a} type="datetime-local" step="1" value={w.start} onInput={(e) => set({ start: e.currentTarget.value })} />}
        </Field>
      )}
      {w.kind === "repeat" && <RepeatFields form={form} repeat={w.repeat} set={(patch) => set({ repeat: { ...w.repeat, ...patch } })} />}
      {w.kind !== "now" && (
        <Field id="f-zone" label="Time zone" fault={form.fault("f-zone")} help={w.zone === ownZone() ? "Time zone of this browser." : `This browser is in ${ownZone()}.`}>
          {(a) => <select {...a} value={w.zone} onChange={(e) => set({ zone: e.currentTarget.value })}>{zonesWith(w.zone).map((z) => <option key={z} value={z}>{z.replaceAll("_", " ")}</option>)}</select>}
        </Field>
      )}
      {w.kind === "repeat" && (
        <Field id="f-start" label="Not before" fault={form.fault("f-start")} help="Leave empty to start now.">
          {(a) => <input {...a} type="datetime-local" step="1" value={w.start} onInput={(e) => set({ start: e.currentTarget.value })} />}
        </Field>
      )}
      <Length form={form} w={w} set={set} />
    </Section>
  );
}

let known: string[] | undefined;

function zonesWith(zone: string): string[] {
  known ??= zones();
  return known.includes(zone) ? known : [zone, ...known];
}

function Length({ form, w, set }: { form: Form; w: WhenDraft; set(patch: Partial<WhenDraft>): void }) {
  const bounded = w.duration !== "" || w.kind === "repeat";
  return (
    <div class="field">
      {w.kind !== "repeat" && (
        <label class="check" for="f-bounded"><input type="checkbox" id="f-bounded" checked={bounded} onChange={(e) => set({ duration: e.currentTarget.checked ? "1h" : "" })} /> Limit the duration</label>
      )}
      {bounded ? (
        <Field id="f-duration" label="Duration of a run" fault={form.fault("f-duration")} help={w.kind === "repeat" ? "Such as 30m, 8h or 1d. A run ends when the next one starts." : "Such as 30m, 8h or 1d."}>
          {(a) => <input {...a} class="short" type="text" list="lengths" spellcheck={false} autocapitalize="none" value={w.duration} onInput={(e) => set({ duration: e.currentTarget.value || " " })} />}
        </Field>
      ) : <p class="field-help">Runs until it is stopped.</p>}
      <datalist id="lengths">{["10m", "30m", "1h", "8h", "1d", "7d"].map((v) => <option key={v} value={v} />)}</datalist>
    </div>
  );
}

const repeats: { value: RepeatKind; label: string }[] = [
  { value: "hourly", label: "Every hour" },
  { value: "daily", label: "Every day" },
  { value: "weekdays", label: "Monday to Friday" },
  { value: "weekly", label: "On selected weekdays" },
  { value: "own", label: "Cron expression" },
];

function RepeatFields({ form, repeat, set }: { form: Form; repeat: Repeat; set(patch: Partial<Repeat>): void }) {
  const line = cronOf(repeat);
  const choose = (kind: RepeatKind): void => set({ kind, line: kind === "own" && "line" in line ? line.line : repeat.line });
  return (
    <div class="repeat">
      <Field id="f-repeat" label="Repeat">
        {(a) => <select {...a} value={repeat.kind} onChange={(e) => choose(e.currentTarget.value as RepeatKind)}>{repeats.map((r) => <option key={r.value} value={r.value}>{r.label}</option>)}</select>}
      </Field>
      {repeat.kind === "weekly" && <Days form={form} repeat={repeat} set={set} />}
      {repeat.kind === "own" ? (
        <Field id="f-cron-line" label="Cron expression" fault={form.fault("f-cron-line")} help="Five fields: minute, hour, day of month, month, day of week. */15 means every 15th, 1-5 means 1 to 5.">
          {(a) => <input {...a} class="mono" type="text" spellcheck={false} autocapitalize="none" value={repeat.line} onInput={(e) => set({ line: e.currentTarget.value })} />}
        </Field>
      ) : <Times form={form} repeat={repeat} set={set} />}
      {repeat.kind !== "own" && "line" in line && <p class="field-help">Cron expression: <code>{line.line}</code></p>}
    </div>
  );
}

function Days({ form, repeat, set }: { form: Form; repeat: Repeat; set(patch: Partial<Repeat>): void }) {
  const toggle = (day: number): void => set({ days: repeat.days.includes(day) ? repeat.days.filter((d) => d !== day) : [...repeat.days, day] });
  return (
    <FieldGroup id="f-cron-days" legend="Days" fault={form.fault("f-cron-days")}>
      <div class="row">
        {weekdays.map((d) => <label class="check day" key={d.day}><input type="checkbox" checked={repeat.days.includes(d.day)} onChange={() => toggle(d.day)} /> <abbr title={d.name}>{d.short}</abbr></label>)}
      </div>
    </FieldGroup>
  );
}

function Times({ form, repeat, set }: { form: Form; repeat: Repeat; set(patch: Partial<Repeat>): void }) {
  const fault = form.fault("f-cron-times");
  if (repeat.kind === "hourly") {
    return (
      <Field id="f-cron-times" label="Minute of the hour" fault={fault}>
        {(a) => <input {...a} class="short" type="number" min="0" max="59" value={Number(repeat.times[0]?.slice(3) ?? 0)}
          onInput={(e) => set({ times: [`00:${e.currentTarget.value.padStart(2, "0")}`] })} />}
      </Field>
    );
  }
  return (
    <FieldGroup id="f-cron-times" legend="Times" fault={fault}>
      <div class="row">
        {repeat.times.map((t, i) => (
          <span class="time" key={i}>
            <input {...ties(`f-cron-times-${i}`, false, undefined)} type="time" aria-label={`Time ${i + 1}`} aria-invalid={fault ? true : undefined} value={t} onInput={(e) => set({ times: repeat.times.map((x, j) => (j === i ? e.currentTarget.value : x)) })} />
            {repeat.times.length > 1 && <button type="button" class="quiet icon-only" aria-label={`Remove time ${i + 1}`} onClick={() => set({ times: repeat.times.filter((_, j) => j !== i) })}><Icon name="close" /></button>}
          </span>
        ))}
        <button type="button" onClick={() => set({ times: [...repeat.times, next(repeat.times)] })}><Icon name="plus" /> Add a time</button>
      </div>
    </FieldGroup>
  );
}

/** An hour after the last time. */
function next(times: string[]): string {
  const last = times[times.length - 1] ?? "08:00";
  const hour = (Number(last.slice(0, 2)) + 1) % 24;
  return `${String(hour).padStart(2, "0")}:${last.slice(3, 5) || "00"}`;
}
