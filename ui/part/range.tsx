// Selection of a time range: a length until now, or from one time to another.
import { useState } from "preact/hooks";
import { moment } from "../data/quantity.ts";
import { lengthOf, lengths, lengthWords, longest, shortest, type Span } from "../data/span.ts";
import "../style/range.css";
import { Icon } from "./icon.tsx";

interface RangeChoiceProps {
  span: Span;
  /** The shown range, ms since 1970. */
  seen?: { from: number; to: number };
  onSpan: (span: Span) => void;
}

/** RangeChoice offers lengths until now, a custom range, and steps through time. */
export function RangeChoice({ span, seen, onSpan }: RangeChoiceProps) {
  const [own, setOwn] = useState(false);
  const current = span.live ? lengths.find((l) => lengthOf(l.key) === span.length)?.key : undefined;
  const choose = (key: string) => {
    const length = lengthOf(key);
    setOwn(key === "own");
    if (length) onSpan({ live: true, length });
  };
  return (
    <div class="range" onKeyDown={(e) => e.key === "Escape" && setOwn(false)}>
      <div class="range-lengths" role="group" aria-label="Time range until now">
        {lengths.map((l) => (
          <button key={l.key} type="button" aria-pressed={l.key === current} onClick={() => choose(l.key)}>{l.words}</button>
        ))}
        <button type="button" aria-expanded={own} aria-pressed={!span.live} onClick={() => setOwn(!own)}>Custom</button>
      </div>
      <select class="range-select" aria-label="Time range" value={current ?? "own"} onChange={(e) => choose(e.currentTarget.value)}>
        {lengths.map((l) => <option key={l.key} value={l.key}>Last {l.words}</option>)}
        <option value="own">Custom range</option>
      </select>
      {own && <OwnRange seen={seen} onSpan={(s) => { onSpan(s); setOwn(false); }} />}
      {!span.live && <Fixed span={span} onSpan={onSpan} />}
    </div>
  );
}

/** A fixed range with steps to earlier and later ones. */
function Fixed({ span, onSpan }: { span: Extract<Span, { live: false }>; onSpan: (span: Span) => void }) {
  const { from, to } = span;
  const length = to - from;
  const move = (by: number) => onSpan({ live: false, from: from + by, to: to + by });
  return (
    <div class="range-fixed">
      <button class="quiet icon-only" type="button" aria-label="Earlier" title="Earlier" onClick={() => move(-length / 2)}><Icon name="left" /></button>
      <span class="range-words">{moment(from)} – {sameDay(from, to) ? moment(to).slice(11) : moment(to)} <span class="faint">({lengthWords(length)})</span></span>
      <button class="quiet icon-only" type="button" aria-label="Later" title="Later" onClick={() => move(length / 2)}><Icon name="right" /></button>
      <button class="quiet icon-only" type="button" aria-label="Zoom out" title="Zoom out" disabled={length * 2 > longest}
        onClick={() => onSpan({ live: false, from: from - length / 2, to: to + length / 2 })}><Icon name="zoomOut" /></button>
    </div>
  );
}

const sameDay = (a: number, b: number): boolean => moment(a).slice(0, 10) === moment(b).slice(0, 10);

/** Two fields for a custom range. */
function OwnRange({ seen, onSpan }: { seen?: { from: number; to: number }; onSpan: (span: Span) => void }) {
  const [from, setFrom] = useState(() => field(seen?.from ?? Date.now() - 3600e3));
  const [to, setTo] = useState(() => field(seen?.to ?? Date.now()));
  const start = new Date(from).getTime();
  const end = new Date(to).getTime();
  const fault = Number.isNaN(start) || Number.isNaN(end) ? "Enter both times."
    : end - start < shortest ? "The end has to be after the start."
    : end - start > longest ? "The range is limited to 400 days." : undefined;
  const submit = (e: Event) => {
    e.preventDefault();
    if (!fault) onSpan({ live: false, from: start, to: end });
  };
  return (
    <form class="range-own" onSubmit={submit}>
      <label>From <input type="datetime-local" step="1" value={from} onInput={(e) => setFrom(e.currentTarget.value)} /></label>
      <label>To <input type="datetime-local" step="1" value={to} onInput={(e) => setTo(e.currentTarget.value)} aria-invalid={Boolean(fault)} aria-describedby="range-fault" /></label>
      <button type="submit" disabled={Boolean(fault)}>Show</button>
      <span id="range-fault" class="field-fault" role="alert">{fault}</span>
      <span class="faint small">Times are local to this device.</span>
    </form>
  );
}

/** A local time in the format of the input. */
const field = (ms: number): string => moment(ms).replace(" ", "T");
