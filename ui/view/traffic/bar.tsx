// The controls of the traffic matrix.
import { agents } from "../../data/agents.ts";
import { refine } from "../../data/route.ts";
import { sessions } from "../../data/sessions.ts";
import { useResource } from "../../data/resource.ts";
import { lengths, lengthOf, type Span } from "../../data/span.ts";
import { groupings, type TrafficQuestion } from "../../data/traffic.ts";
import { RangeChoice } from "../../part/range.tsx";
import { groupingWords, prefixes } from "./look.ts";

interface BarProps {
  look: TrafficQuestion;
  /** Key of the label that the answer has. */
  label: string;
}

/** Bar chooses what the matrix puts together, of which time and session. */
export function Bar({ look, label }: BarProps) {
  useResource(sessions);
  useResource(agents);
  const known = (sessions.value.value ?? []).map((s) => s.spec?.name ?? "").filter(Boolean);
  const keys = [...new Set((agents.value.value ?? []).flatMap((a) => Object.keys(a.labels)))].sort();
  return (
    <div class="traffic-bar panel" role="search" aria-label="Matrix controls">
      <div class="field">
        <span id="traffic-by">Between</span>
        <div class="segments" role="group" aria-labelledby="traffic-by">
          {groupings.map((g) => <button key={g} type="button" aria-pressed={g === look.by} onClick={() => refine({ by: g === "pair" ? undefined : g })}>{groupingWords[g].short}</button>)}
        </div>
      </div>
      {look.by === "label" && <div class="field">
        <label for="traffic-label">Label</label>
        <select id="traffic-label" value={look.label || label} onChange={(e) => refine({ label: e.currentTarget.value })}>
          {[...new Set([look.label || label, ...keys])].filter(Boolean).map((k) => <option key={k} value={k}>{k}</option>)}
        </select>
      </div>}
      {look.by === "prefix" && <Length name="p4" title="IPv4 prefix" value={look.prefix4} usual={prefixes.prefix4} most={32} />}
      {look.by === "prefix" && <Length name="p6" title="IPv6 prefix" value={look.prefix6} usual={prefixes.prefix6} most={128} />}
      <div class="field">
        <span id="traffic-amount">Volume in</span>
        <div class="segments" role="group" aria-labelledby="traffic-amount">
          <button type="button" aria-pressed={look.amount === "bytes"} onClick={() => refine({ amount: undefined })}>Bytes</button>
          <button type="button" aria-pressed={look.amount === "packets"} onClick={() => refine({ amount: "packets" })}>Packets</button>
        </div>
      </div>
      <div class="field">
        <label for="traffic-session">Session</label>
        <select id="traffic-session" value={look.session} onChange={(e) => refine({ session: e.currentTarget.value || undefined })}>
          <option value="">all</option>
          {[...new Set(look.session ? [look.session, ...known] : known)].map((n) => <option key={n} value={n}>{n}</option>)}
        </select>
      </div>
      <div class="field">
        <span>Time</span>
        <RangeChoice span={look.span} onSpan={(span) => refine(rangeOf(span))} />
      </div>
      {look.by !== "host-port" && look.by !== "flow" && <label class="traffic-check"><input type="checkbox" checked={look.protocols} onChange={(e) => refine({ protocols: e.currentTarget.checked ? "1" : undefined })} />By protocol</label>}
    </div>
  );
}

const rangeOf = (span: Span) => (span.live
  ? { range: lengths.find((l) => lengthOf(l.key) === span.length)?.key ?? `${Math.round(span.length / 1000)}s`, from: undefined, to: undefined }
  : { range: undefined, from: Math.round(span.from), to: Math.round(span.to) });

function Length({ name, title, value, usual, most }: { name: string; title: string; value: number; usual: number; most: number }) {
  return (
    <div class="field">
      <label for={`traffic-${name}`}>{title}</label>
      <span class="traffic-length">/<input id={`traffic-${name}`} type="number" min={1} max={most} value={value} onChange={(e) => {
        const n = e.currentTarget.valueAsNumber;
        if (n >= 1 && n <= most) refine({ [name]: n === usual ? undefined : n });
      }} /></span>
    </div>
  );
}
