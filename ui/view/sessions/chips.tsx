// Selecting several of many: chips and a search input (the combobox pattern of ARIA).
import { useState } from "preact/hooks";
import { ties, Fault } from "../../part/field.tsx";
import { Icon } from "../../part/icon.tsx";

/** One selectable item. */
export interface Item {
  value: string;
  label: string;
  /** A description of it. */
  note?: string;
}

interface ChipsProps {
  id: string;
  label: string;
  help?: string;
  fault?: string;
  values: string[];
  items: Item[];
  placeholder: string;
  onChange(values: string[]): void;
}

const shown = 60;

/** Items that contain all the words, those whose name starts with the text first. */
function matching(items: Item[], values: string[], text: string): Item[] {
  const whole = text.trim().toLowerCase();
  const words = whole.split(/\s+/).filter(Boolean);
  const rank = (i: Item): number => (i.value.toLowerCase() === whole ? 0 : i.value.toLowerCase().startsWith(whole) ? 1 : 2);
  return items
    .filter((i) => !values.includes(i.value) && words.every((w) => `${i.value} ${i.label} ${i.note ?? ""}`.toLowerCase().includes(w)))
    .sort((a, b) => (whole ? rank(a) - rank(b) : 0));
}

/** Chips shows the selected values; text that matches no item can be added too. */
export function Chips({ id, label, help, fault, values, items, placeholder, onChange }: ChipsProps) {
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const [active, setActive] = useState(0);
  const found = matching(items, values, text);
  const list = found.slice(0, shown);
  const add = (value: string): void => {
    if (value && !values.includes(value)) onChange([...values, value]);
    setText("");
    setActive(0);
  };
  const remove = (value: string): void => onChange(values.filter((v) => v !== value));
  const key = (e: KeyboardEvent): void => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      setOpen(true);
      const step = e.key === "ArrowDown" ? 1 : -1;
      if (open && list.length > 0) setActive((active + step + list.length) % list.length);
    } else if (e.key === "Enter" || (e.key === "," && text)) {
      if (!open && !text) return;
      e.preventDefault();
      add(exact(items, text) ?? list[active]?.value ?? text.trim());
      setOpen(false);
    } else if (e.key === "Escape" && open) {
      e.preventDefault();
      setOpen(false);
    } else if (e.key === "Backspace" && !text && values.length > 0) {
      remove(values[values.length - 1] ?? "");
    }
  };
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class={`chips ${fault ? "faulty" : ""}`}>
        {values.map((v) => {
          const name = items.find((i) => i.value === v)?.label ?? v;
          return <span class="chip" key={v}>{name}<button type="button" class="quiet" aria-label={`Remove ${name} from ${label}`} onClick={() => remove(v)}><Icon name="close" /></button></span>;
        })}
        <input {...ties(id, Boolean(help), fault)} type="text" role="combobox" aria-expanded={open && list.length > 0} aria-controls={`${id}-list`} aria-autocomplete="list"
          aria-activedescendant={open && list[active] ? `${id}-option-${active}` : undefined} autocomplete="off" spellcheck={false} autocapitalize="none"
          placeholder={values.length === 0 ? placeholder : "add another"} value={text} onKeyDown={key} onFocus={() => setOpen(true)} onClick={() => setOpen(true)}
          onBlur={() => { setOpen(false); if (text.trim()) add(exact(items, text) ?? text.trim()); }}
          onInput={(e) => { setText(e.currentTarget.value); setOpen(true); setActive(0); }} />
      </div>
      <div class="chip-drop">
        <ul class="chip-list" id={`${id}-list`} role="listbox" aria-label={`Options for ${label}`} hidden={!open || list.length === 0}>
          {list.map((item, i) => (
            <li key={item.value} id={`${id}-option-${i}`} role="option" aria-selected={i === active} class={i === active ? "active" : ""}
              onMouseDown={(e) => { e.preventDefault(); add(item.value); }} onMouseMove={() => setActive(i)}>
              <span>{item.label}</span>{item.note && <small>{item.note}</small>}
            </li>
          ))}
          {found.length > shown && <li class="chip-more" role="presentation">{found.length - shown} more; type to search</li>}
        </ul>
      </div>
      <Fault id={id} text={fault} />
      {help && <p class="field-help" id={`${id}-help`}>{help}</p>}
    </div>
  );
}

const exact = (items: Item[], text: string): string | undefined => items.find((i) => i.value === text.trim())?.value;
