// Filters of events: range, level, kind, agent, session, text.
import type { Happening } from "../../data/feed.ts";
import { kindOf } from "../../data/kind.ts";
import { moment } from "../../data/quantity.ts";
import { refine } from "../../data/route.ts";
import { Icon } from "../../part/icon.tsx";
import { Search } from "../../part/search.tsx";
import { chooseAll, chooseRange, filters, ranges, type Choice } from "./choice.ts";

/** Bar edits the filter; its options come from the events of the range. */
export function Bar({ choice, all }: { choice: Choice; all: readonly Happening[] }) {
  const kinds = valuesOf(all.map((h) => h.event.kind), choice.kind);
  const agents = valuesOf(all.flatMap((h) => [h.event.agent, h.event.peer]), choice.agent);
  const sessions = valuesOf(all.map((h) => h.event.session), choice.session);
  return (
    <div class="event-bar" role="search" aria-label="Filter events">
      <div class="event-ranges" role="group" aria-label="Range of time">
        {ranges.map((r) => <button key={r.key} type="button" aria-pressed={!choice.part && r === choice.range} onClick={() => chooseRange(r)}>{r.label}</button>)}
      </div>
      <Select label="Level" value={choice.least === "info" ? "" : choice.least} name="level" options={[["", "All levels"], ["warning", "Warnings and errors"], ["error", "Errors"]]} />
      <Select label="Kind" value={choice.kind} name="kind" options={[["", "All kinds"], ...kinds.map((k): [string, string] => [k, kindOf(k).label])]} />
      <Select label="Agent" value={choice.agent} name="agent" options={[["", "All agents"], ...agents.map((a): [string, string] => [a, a])]} />
      <Select label="Session" value={choice.session} name="session" options={[["", "All sessions"], ...sessions.map((s): [string, string] => [s, s])]} />
      <Search label="Search events" placeholder="Search" value={choice.text} onSearch={(text) => refine({ text: text || undefined })} />
      {filters(choice) && <button type="button" class="quiet" onClick={chooseAll}><Icon name="close" />Show all</button>}
      {choice.part && <button type="button" class="event-part" onClick={() => refine({ from: undefined, to: undefined })} title="Show the whole range"><Icon name="zoomOut" />{moment(choice.part.from)} to {moment(choice.part.to)}<span class="hidden-text">: show the whole range</span></button>}
    </div>
  );
}

/** The distinct values in order, including the selected one even if no event has it. */
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
