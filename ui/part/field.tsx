// One question of a form: its label, its help, and what is wrong with the answer,
// tied together for screen readers.
import type { ComponentChildren } from "preact";

/** What an input of a field carries, so that label, help and fault belong to it. */
export interface FieldTies {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": boolean | undefined;
}

export interface FieldProps {
  id: string;
  label: ComponentChildren;
  /** What the answer does, in a sentence. */
  help?: ComponentChildren;
  /** What is wrong with the answer. */
  fault?: string;
  children: (ties: FieldTies) => ComponentChildren;
}

/** The ties of an input that is laid out by hand. */
export function ties(id: string, help: boolean, fault: string | undefined): FieldTies {
  const described = [fault && `${id}-fault`, help && `${id}-help`].filter(Boolean).join(" ");
  return { id, "aria-describedby": described || undefined, "aria-invalid": fault ? true : undefined };
}

/** Fault says what is wrong with the field of that id; nothing where nothing is. */
export function Fault({ id, text }: { id: string; text: string | undefined }) {
  return text ? <p class="field-fault" id={`${id}-fault`}>{text}</p> : null;
}

/** Field is one labelled input with its help and its fault. */
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

export interface FieldGroupProps {
  id: string;
  legend: ComponentChildren;
  help?: ComponentChildren;
  fault?: string;
  children: ComponentChildren;
}

/** FieldGroup is several inputs under one question. It takes the focus where the fault is its own. */
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
  /** What it does and costs. */
  help?: ComponentChildren;
}

export interface ChoicesProps<V extends string> {
  id: string;
  legend: ComponentChildren;
  help?: ComponentChildren;
  fault?: string;
  value: V;
  options: readonly Choice<V>[];
  onChange(value: V): void;
  /** More of the question, below the options. */
  children?: ComponentChildren;
}

/** Choices is one of several, each with what it means. */
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
