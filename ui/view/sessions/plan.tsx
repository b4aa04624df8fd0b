// The server's plan of a specification.
import type { ComponentChildren } from "preact";
import type { Pair, PlanSessionResponse } from "../../gen/session_pb.ts";
import { millis } from "../../data/time.ts";
import { ownZone, zoned } from "../../data/zone.ts";

const few = 12;
const warned = 3;

/** PlanPanel shows the plan while the specification is edited. */
export function PlanPanel({ plan, fresh, fault, zone, problems }: { plan: PlanSessionResponse | undefined; fresh: boolean; fault: string | undefined; zone: string; problems: number }) {
  return (
    <section class={`panel plan ${fresh ? "" : "stale"}`} aria-labelledby="plan-title" aria-busy={!fresh}>
      <header><h2 id="plan-title">Plan</h2>{!fresh && !fault && <span class="soft small">updating…</span>}</header>
      {fault && <p class="field-fault" role="alert">The plan is out of date: {fault}</p>}
      {plan && plan.pairs.length === 0 && problems > 0 && <p class="soft">Fix {problems === 1 ? "the problem" : `the ${problems} problems`} to see the plan.</p>}
      {plan && <Plan plan={plan} zone={zone} />}
    </section>
  );
}

function Plan({ plan, zone }: { plan: PlanSessionResponse; zone: string }) {
  const starts = plan.starts.map((s) => millis(s) ?? 0);
  return (
    <>
      {plan.warnings.length > 0 && (
        <div class="warnings"><h3>Warnings</h3><ul>{plan.warnings.slice(0, warned).map((w) => <li key={w}>{w}</li>)}</ul>
          {plan.warnings.length > warned && <Rest n={plan.warnings.length - warned}><ul>{plan.warnings.slice(warned).map((w) => <li key={w}>{w}</li>)}</ul></Rest>}</div>
      )}
      {plan.pairs.length > 0 && <><h3>{plan.pairs.length === 1 ? "1 pair" : `${plan.pairs.length} pairs`}</h3><PairList pairs={plan.pairs} /></>}
      {plan.costs.length > 0 && <><h3>Overhead</h3><ul>{plan.costs.map((c) => <li key={c}>{c}</li>)}</ul></>}
      {starts.length > 0 && <Starts starts={starts} zone={zone} repeated={starts.length > 1} />}
      {plan.steps.length > 0 && (
        <>
          <h3>Steps</h3>
          <ol class="steps">
            {plan.steps.slice(0, few).map((s, i) => <li key={i}><b>{s.agent}</b> <span class="soft">{s.action.replace("-", " ")}:</span> {s.description}</li>)}
          </ol>
          {plan.steps.length > few && <Rest n={plan.steps.length - few}><ol class="steps" start={few + 1}>{plan.steps.slice(few).map((s, i) => <li key={i}><b>{s.agent}</b> <span class="soft">{s.action.replace("-", " ")}:</span> {s.description}</li>)}</ol></Rest>}
        </>
      )}
    </>
  );
}

function Rest({ n, children }: { n: number; children: ComponentChildren }) {
  return <details><summary>{n} more</summary>{children}</details>;
}

/** Pairs as text, the first ones visible and the rest folded. */
function PairList({ pairs }: { pairs: readonly Pair[] }) {
  const item = (p: Pair) => <li key={`${p.source} ${p.destination}`}>{p.source} <span aria-label="to">→</span> {p.destination}</li>;
  return (
    <>
      <ul class="pairs">{pairs.slice(0, few).map(item)}</ul>
      {pairs.length > few && <Rest n={pairs.length - few}><ul class="pairs">{pairs.slice(few).map(item)}</ul></Rest>}
    </>
  );
}

function Starts({ starts, zone, repeated }: { starts: number[]; zone: string; repeated: boolean }) {
  const own = ownZone();
  const soon = (ms: number): boolean => ms - Date.now() < 3000;
  return (
    <>
      <h3>{repeated ? "Next starts" : "Start"}</h3>
      {starts.length === 1 && soon(starts[0] ?? 0) ? <p>Immediately.</p> : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of starts"><table class="starts">
          <thead><tr><th scope="col">{zone}</th>{zone !== own && <th scope="col">local ({own})</th>}</tr></thead>
          <tbody>{starts.map((ms) => <tr key={ms}><td>{zoned(ms, zone)}</td>{zone !== own && <td>{zoned(ms, own)}</td>}</tr>)}</tbody>
        </table></div>
      )}
    </>
  );
}
