// The question of the view of service levels: month, hosts and targets.
import { useEffect, useState } from "preact/hooks";
import { monthAfter, monthAt, monthRange, percentOf, quantileName, quantiles, shareOf, type LevelQuestion } from "../../data/levels.ts";
import { parseSpan, spanText } from "../../data/length.ts";
import { refine } from "../../data/route.ts";
import { sessions } from "../../data/sessions.ts";
import { useResource } from "../../data/resource.ts";
import { Icon } from "../../part/icon.tsx";
import { queryOf, selectorsOf } from "./look.ts";

/** The texts of the fields. */
interface Typed {
  month: string;
  scope: string;
  availability: string;
  delay: string;
  loss: string;
  outage: string;
}

const typedOf = (q: LevelQuestion): Typed => ({
  month: q.month, scope: q.scope.join(", "), availability: percentOf(q.availability), delay: q.delayNs > 0 ? spanText(q.delayNs) : "", loss: percentOf(q.loss), outage: percentOf(q.outage) || "0",
});

/** Why a text is wrong, by field. */
export function faultsOf(t: Typed): Partial<Typed> {
  const faults: Partial<Typed> = {};
  const percentRule = "A percentage, such as 99.9.";
  if (!monthRange(t.month)) faults.month = "A month, such as 2026-11.";
  else if (t.month > monthAt(Date.now())) faults.month = "This month has not begun.";
  for (const name of ["availability", "loss", "outage"] as const) {
    const text = t[name].trim();
    if ((text !== "" || name === "outage") && shareOf(text) === undefined) faults[name] = percentRule;
  }
  const ns = t.delay.trim() === "" ? 0 : parseSpan(t.delay);
  if (ns === undefined || ns < 0) faults.delay = "A time with its unit, such as 20ms.";
  return faults;
}

/** Bar asks when it is sent, not while it is typed: an answer takes the server seconds to minutes. */
export function Bar({ question }: { question: LevelQuestion }) {
  useResource(sessions);
  const known = (sessions.value.value ?? []).map((s) => s.spec?.name ?? "").filter(Boolean);
  const [typed, setTyped] = useState(typedOf(question));
  const [quantile, setQuantile] = useState(question.quantile);
  const [session, setSession] = useState(question.session);
  useEffect(() => {
    setTyped(typedOf(question));
    setQuantile(question.quantile);
    setSession(question.session);
  }, [JSON.stringify(question)]);
  const faults = faultsOf(typed);
  const wrong = Object.keys(faults).length > 0;
  const ask = (t: Typed): void => {
    if (Object.keys(faultsOf(t)).length > 0) return;
    const share = (text: string): number => shareOf(text.trim()) ?? 0;
    refine(queryOf({
      month: t.month, scope: selectorsOf(t.scope), session, quantile, availability: share(t.availability), loss: share(t.loss), outage: share(t.outage), delayNs: Math.max(0, parseSpan(t.delay) ?? 0),
    }));
  };
  const step = (months: number): void => {
    const moved = { ...typed, month: monthAfter(question.month, months) };
    setTyped(moved);
    ask(moved);
  };
  const input = (name: keyof Typed, label: string, placeholder: string, unit?: string) => (
    <div class="field">
      <label for={`level-${name}`}>{label}</label>
      <span class="level-input"><input id={`level-${name}`} value={typed[name]} placeholder={placeholder} autocomplete="off" spellcheck={false} class={unit || name === "delay" ? "short" : undefined}
        aria-invalid={faults[name] ? true : undefined} aria-describedby={faults[name] ? `level-${name}-why` : undefined} onInput={(e) => setTyped({ ...typed, [name]: e.currentTarget.value })} />{unit}</span>
      {faults[name] && <p class="field-fault" id={`level-${name}-why`}>{faults[name]}</p>}
    </div>
  );
  return (
    <form class="level-bar panel" role="search" aria-label="Report" onSubmit={(e) => { e.preventDefault(); ask(typed); }}>
      <div class="field">
        <label for="level-month">Month (UTC)</label>
        <span class="level-input">
          <button type="button" class="quiet icon-only" aria-label="Month before" title="Month before" onClick={() => step(-1)}><Icon name="left" /></button>
          <input id="level-month" type="month" placeholder="2026-11" max={monthAt(Date.now())} value={typed.month} aria-invalid={faults.month ? true : undefined} aria-describedby={faults.month ? "level-month-why" : undefined}
            onInput={(e) => setTyped({ ...typed, month: e.currentTarget.value })} />
          <button type="button" class="quiet icon-only" aria-label="Month after" title="Month after" disabled={question.month >= monthAt(Date.now())} onClick={() => step(1)}><Icon name="right" /></button>
        </span>
        {faults.month && <p class="field-fault" id="level-month-why">{faults.month}</p>}
      </div>
      {input("scope", "Hosts or pairs; empty: all", "customer=acme, a:b")}
      <div class="field">
        <label for="level-session">Session</label>
        <select id="level-session" value={session} onChange={(e) => setSession(e.currentTarget.value)}>
          <option value="">all</option>
          {[...new Set(session ? [session, ...known] : known)].map((n) => <option key={n} value={n}>{n}</option>)}
        </select>
      </div>
      <fieldset class="level-targets">
        <legend>Targets; empty: none</legend>
        {input("availability", "Availability ≥", "99.9", "%")}
        <div class="field">
          <label for="level-quantile">Delay of</label>
          <select id="level-quantile" class="short" value={quantile} onChange={(e) => setQuantile(Number(e.currentTarget.value))}>{quantiles.map((q) => <option key={q} value={q}>{quantileName(q)}</option>)}</select>
        </div>
        {input("delay", "Delay ≤", "20ms")}
        {input("loss", "Loss ≤", "0.1", "%")}
        {input("outage", "Down above", "20", "% loss")}
      </fieldset>
      <button class="main" type="submit" disabled={wrong}>Show</button>
    </form>
  );
}
