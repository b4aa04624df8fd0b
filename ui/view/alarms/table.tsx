// The list of alarms.
import { acknowledge, stateOf, type State } from "../../data/alarms.ts";
import { sentence } from "../../data/client.ts";
import { ago, moment, unbroken } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import { millis } from "../../data/time.ts";
import type { Alarm } from "../../gen/alarm_pb.ts";
import { useState } from "preact/hooks";

interface Acts {
  /** The user may change alarms. */
  acts: boolean;
  onTake(alarm: Alarm): void;
  onMute(alarm: Alarm): void;
}

/** AlarmTable lists alarms in their order. */
export function AlarmTable({ alarms, ...acts }: Acts & { alarms: readonly Alarm[] }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Alarms">
      <table class="cards">
        <thead><tr><th scope="col">About</th><th scope="col">State</th><th scope="col">Severity</th><th scope="col">Rule</th><th scope="col">Began</th><th scope="col">Found</th><th scope="col"><span class="hidden-text">Actions</span></th></tr></thead>
        <tbody>{alarms.map((a) => <Row key={a.id} alarm={a} {...acts} />)}</tbody>
      </table>
    </div>
  );
}

const badges: Record<State, string> = { active: "bad", acknowledged: "busy", silenced: "idle", ended: "good" };

function Row({ alarm: a, acts, onTake, onMute }: Acts & { alarm: Alarm }) {
  const state = stateOf(a);
  const by = a.acknowledgement;
  return (
    <tr class={state === "ended" ? "faint" : undefined}>
      <th scope="row"><About alarm={a} /></th>
      <td data-name="State"><span class={`badge ${badges[state]}`}>{state}</span>{by && <small class="alarm-by">{by.by}{by.comment && `: ${by.comment}`}</small>}</td>
      <td data-name="Severity">{a.labels.severity}</td>
      <td data-name="Rule">{a.rule}</td>
      <td data-name="Began"><Since at={millis(a.began)} /></td>
      <td data-name="Found" class="alarm-found">{unbroken(a.ending || a.summary)}</td>
      <td class="alarm-actions">{acts && state !== "ended" && <>
        {by ? <Withdraw id={a.id} /> : <button type="button" aria-label={`Acknowledge ${a.summary}`} onClick={() => onTake(a)}>Acknowledge</button>}
        <button type="button" class="quiet" aria-label={`Silence ${a.summary}`} onClick={() => onMute(a)}>Silence</button>
      </>}</td>
    </tr>
  );
}

function About({ alarm: a }: { alarm: Alarm }) {
  if (a.agent) return <a href={href(["agent", a.agent])}>{a.agent}</a>;
  const pair = `${a.source || "unknown"} → ${a.destination}`;
  return (
    <>
      {a.source ? <a href={href(["pair", a.source, a.destination])}>{pair}</a> : pair}
      {a.labels.flow && <small class="alarm-by">{a.labels.flow}</small>}
      {a.session && <small class="alarm-by">session {a.session}</small>}
    </>
  );
}

function Since({ at }: { at: number | undefined }) {
  return at === undefined ? null : <time dateTime={new Date(at).toISOString()} title={moment(at)}>{ago(at)}</time>;
}

function Withdraw({ id }: { id: string }) {
  const [fault, setFault] = useState<string>();
  const act = (): void => void acknowledge(id, "", true).catch((e: unknown) => setFault(sentence(e)));
  return <><button type="button" class="quiet" onClick={act}>Withdraw</button>{fault && <span class="field-fault" role="alert">{fault}</span>}</>;
}
