// Form fields: label, help and error,
// tied together for screen readers.
import type { ComponentChildren } from "preact";

/** Attributes that tie an input to its label, help and error. */
interface FieldTies {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": boolean | undefined;
}

interface FieldProps {
  id: string;
  label: ComponentChildren;
  /** Help text, one sentence. */
  help?: ComponentChildren;
  /** Error text. */
  fault?: string;
  children: (ties: FieldTies) => ComponentChildren;
}

/** The attributes of an input outside a Field. */
export function ties(id: string, help: boolean, fault: string | undefined): FieldTies {
  const described = [fault && `${id}-fault`, help && `${id}-help`].filter(Boolean).join(" ");
  return { id, "aria-describedby": described || undefined, "aria-invalid": fault ? true : undefined };
}

/** Fault shows the error of the field with an id, if any. */
export function Fault({ id, text }: { id: string; text: string | undefined }) {
  return text ? <p class="field-fault" id={`${id}-fault`}>{text}</p> : null;
}

/** Field is a labelled input with help and error. */
export function Field({ id, label, help, fault, children }: FieldProps) {
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(ties(id, Boolean(help), fault))}
      <Fault id={id} text={fault} />
      {help && <p class="field-help" id={`${id}-help`}>{help}</p>}
    </div>
  );
}

interface FieldGroupProps {
  id: string;
  legend: ComponentChildren;
  help?: ComponentChildren;
  fault?: string;
  children: ComponentChildren;
}

/** FieldGroup is several inputs under one legend. It takes the focus if the error is its own. */
export function FieldGroup({ id, legend, help, fault, children }: FieldGroupProps) {
  return (
    <fieldset class="field-group" tabIndex={-1} {...ties(id, Boolean(help), fault)}>
      <legend>{legend}</legend>
      {help && <p class="field-help" id={`${id}-help`}>{help}</p>}
      {children}
      <Fault id={id} text={fault} />
    </fieldset>
  );
}

export interface Choice<V extends string> {
  value: V;
  label: string;
  /** Its effect and cost. */
  help?: ComponentChildren;
}

interface ChoicesProps<V extends string> {
  id: string;
  legend: ComponentChildren;
  help?: ComponentChildren;
  fault?: string;
  value: V;
  options: readonly Choice<V>[];
  onChange(value: V): void;
  /** Further inputs below the options. */
  children?: ComponentChildren;
}

/** Choices is a radio group with help for each option. */
export function Choices<V extends string>({ id, legend, help, fault, value, options, onChange, children }: ChoicesProps<V>) {
  return (
    <FieldGroup id={id} legend={legend} help={help} fault={fault}>
      <div class="choices">
        {options.map((o) => {
          const own = `${id}-${o.value}`;
          return (
            <div class={`choice ${o.value === value ? "chosen" : ""}`} key={o.value}>
              <input type="radio" id={own} name={id} checked={o.value === value} aria-describedby={o.help ? `${own}-help` : undefined} onChange={() => onChange(o.value)} />
              <label for={own}>{o.label}</label>
              {o.help && <p class="field-help" id={`${own}-help`}>{o.help}</p>}
            </div>
          );
        })}
      </div>
      {children}
    </FieldGroup>
  );
}
