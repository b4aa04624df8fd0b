// What to show of the events: range, level, kind, agent, session, words.
import { useEffect, useState } from "preact/hooks";
import type { Happening } from "../../data/feed.ts";
import { kindOf } from "../../data/kind.ts";
import { moment } from "../../data/quantity.ts";
import { refine } from "../../data/route.ts";
import { Icon } from "../../part/icon.tsx";
import { chooseAll, chooseRange, filters, ranges, type Choice } from "./choice.ts";

/** Bar changes the choice; what can be chosen comes from the events of the range. */
export function Bar({ choice, all }: { choice: Choice; all: readonly Happening[] }) {
  const kinds = valuesOf(all.map((h) => h.event.kind), choice.kind);
  const agents = valuesOf(all.flatMap((h) => [h.event.agent, h.event.peer]), choice.agent);
  const sessions = valuesOf(all.map((h) => h.event.session), choice.session);
  return (
    <div class="event-bar" role="search" aria-label="Choose events">
      <div class="event-ranges" role="group" aria-label="Range of time">
        {ranges.map((r) => <button key={r.key} type="button" aria-pressed={!choice.part && r === choice.range} onClick={() => chooseRange(r)}>{r.label}</button>)}
      </div>
      <Select label="Level" value={choice.least === "info" ? "" : choice.least} name="level" options={[["", "All levels"], ["warning", "Warnings and errors"], ["error", "Errors"]]} />
      <Select label="Kind" value={choice.kind} name="kind" options={[["", "All kinds"], ...kinds.map((k): [string, string] => [k, kindOf(k).label])]} />
      <Select label="Agent" value={choice.agent} name="agent" options={[["", "All agents"], ...agents.map((a): [string, string] => [a, a])]} />
      <Select label="Session" value={choice.session} name="session" options={[["", "All sessions"], ...sessions.map((s): [string, string] => [s, s])]} />
      <Words value={choice.text} />
      {filters(choice) && <button type="button" class="quiet" onClick={chooseAll}><Icon name="close" />Show all</button>}
      {choice.part && <button type="button" class="event-part" onClick={() => refine({ from: undefined, to: undefined })} title="Back to the whole range"><Icon name="zoomOut" />{moment(choice.part.from)} to {moment(choice.part.to)}<span class="hidden-text">: back to the whole range</span></button>}
    </div>
  );
}

/** The different values, in order, with the chosen one even where no event has it. */
function valuesOf(values: readonly string[], chosen: string): string[] {
  return [...new Set([...values, chosen])].filter(Boolean).sort((a, b) => a.localeCompare(b));
}

function Select({ label, name, value, options }: { label: string; name: string; value: string; options: [string, string][] }) {
  return (
    <select aria-label={label} value={value} class={value ? "chosen" : undefined} onChange={(e) => refine({ [name]: e.currentTarget.value || undefined })}>
      {options.map(([key, text]) => <option key={key} value={key} selected={key === value}>{text}</option>)}
    </select>
  );
}

// The address changes a moment after the last key, so that typing stays smooth.
const pause = 200;

function Words({ value }: { value: string }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => refine({ text: text || undefined }), pause);
    return () => clearTimeout(timer);
  }, [text]);
  return <input type="search" aria-label="Words in the event" placeholder="Search" value={text} onInput={(e) => setText(e.currentTarget.value)} />;
}
