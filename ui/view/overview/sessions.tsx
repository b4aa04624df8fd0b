// Active sessions.
import type { Session } from "../../gen/session_pb.ts";
import { ago, count, moment } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import { millis } from "../../data/time.ts";
import { Badge } from "../../part/badge.tsx";
import { NewSession } from "./empty.tsx";

const shown = new Set(["starting", "running", "degraded", "stopping", "paused"]);

/** SessionsPanel lists the active sessions. */
export function SessionsPanel({ sessions }: { sessions: readonly Session[] }) {
  const now = sessions.filter((s) => shown.has(s.state));
  const next = sessions.filter((s) => s.state === "scheduled").sort((a, b) => (millis(a.nextStart) ?? Infinity) - (millis(b.nextStart) ?? Infinity))[0];
  return (
    <section class="panel" aria-labelledby="running-title">
      <header class="spread">
        <h2 id="running-title">Active sessions</h2>
        <span class="row"><a href="#/sessions">All sessions</a><NewSession /></span>
      </header>
      {now.length === 0 ? <p class="soft">No active sessions.</p> : (
        <div class="scroll-x">
          <table class="cards">
            <thead><tr><th scope="col">Session</th><th scope="col">State</th><th scope="col" class="number">Pairs</th><th scope="col">Started</th><th scope="col">Ends</th><th scope="col">Note</th></tr></thead>
            <tbody>{now.map((s) => <SessionRow key={s.spec?.name} session={s} />)}</tbody>
          </table>
        </div>
      )}
      {next && <p class="soft small after">Next: <a href={href(["sessions", next.spec?.name ?? ""])}>{next.spec?.name}</a>{next.nextStart && ` at ${moment(millis(next.nextStart) ?? 0)}`}</p>}
    </section>
  );
}

function SessionRow({ session }: { session: Session }) {
  const name = session.spec?.name ?? "";
  const started = millis(session.started);
  const ends = millis(session.ends);
  return (
    <tr>
      <td data-name=""><a href={href(["sessions", name])}>{name}</a></td>
      <td data-name="State"><Badge state={session.state} /></td>
      <td data-name="Pairs" class="number">{count(session.pairs.length)}</td>
      <td data-name="Started" title={started ? moment(started) : undefined}>{started ? ago(started) : "–"}</td>
      <td data-name="Ends">{ends ? moment(ends) : "when stopped"}</td>
      <td data-name="Note" class="wrap">{session.reason || <span class="faint">–</span>}</td>
    </tr>
  );
}
