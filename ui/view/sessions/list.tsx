// All sessions with their state and actions.
import { limited, operates, who } from "../../data/account.ts";
import { samplingWords, trafficWords, whenWords } from "../../data/phrase.ts";
import { ago, count, moment } from "../../data/quantity.ts";
import { href, refine, route } from "../../data/route.ts";
import { useResource } from "../../data/resource.ts";
import { sessions } from "../../data/sessions.ts";
import { millis } from "../../data/time.ts";
import type { Session } from "../../gen/session_pb.ts";
import { Badge } from "../../part/badge.tsx";
import { Icon } from "../../part/icon.tsx";
import { Notice } from "../../part/notice.tsx";
import { SessionActions } from "./actions.tsx";
import { someOf } from "./who.tsx";

const groups: { title: string; states: string[] }[] = [
  { title: "Running", states: ["running", "starting", "degraded", "stopping"] },
  { title: "Scheduled", states: ["scheduled"] },
  { title: "Paused", states: ["paused"] },
  { title: "Ended", states: ["ended"] },
];

function fits(s: Session, text: string): boolean {
  const hay = [s.spec?.name, s.state, s.reason, s.createdBy, ...(s.spec?.sources ?? []), ...(s.spec?.destinations ?? []), ...(s.spec?.filters ?? []), ...s.pairs.flatMap((p) => [p.source, p.destination])].join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => hay.includes(word));
}

/** SessionList lists the sessions by state. */
export function SessionList() {
  const { value, fault } = useResource(sessions);
  const all = value.value;
  const text = route.value.query.get("find") ?? "";
  const only = route.value.query.get("state") ?? "";
  if (!all) return fault.value ? <Notice title="Could not load sessions" level="error">{fault.value}</Notice> : <Notice title="Loading…" />;
  if (all.length === 0) return <NoSessions />;
  const found = all.filter((s) => fits(s, text));
  const shown = groups.filter((g) => !only || g.title === only).map((g) => ({ ...g, list: found.filter((s) => g.states.includes(s.state)) })).filter((g) => g.list.length > 0);
  return (
    <div class="stack">
      <div class="row list-tools" role="search">
        <label class="find"><span class="hidden-text">Search sessions</span><Icon name="search" /><input type="search" placeholder="Search name, agent, filter" value={text} onInput={(e) => refine({ find: e.currentTarget.value || undefined })} /></label>
        <div class="row tight" role="group" aria-label="Filter by state">
          {[{ title: "", n: found.length }, ...groups.map((g) => ({ title: g.title, n: found.filter((s) => g.states.includes(s.state)).length }))].map((g) => (
            <button key={g.title} type="button" class="small-button" aria-pressed={only === g.title} onClick={() => refine({ state: g.title || undefined })}>{g.title || "All"} <span class="faint">{g.n}</span></button>
          ))}
        </div>
      </div>
      {fault.value && <p class="field-fault" role="alert">This list is out of date: {fault.value}</p>}
      {shown.length === 0 && <Notice title="No matching sessions" action={<button type="button" onClick={() => refine({ find: undefined, state: undefined })}>Show all</button>}>None of the {all.length} sessions matches the filter.</Notice>}
      {shown.map((g) => (
        <section class="panel sessions-panel" key={g.title} aria-label={g.title}>
          <header><h2>{g.title}</h2><span class="faint">{g.list.length}</span></header>
          <ul class="session-list">{g.list.map((s) => <SessionLine key={s.spec?.name} session={s} />)}</ul>
        </section>
      ))}
    </div>
  );
}

function NoSessions() {
  if (limited.value) return <Notice title="No sessions">No session with a pair of hosts that the token {who.value?.name} sees.</Notice>;
  if (!operates.value) return <Notice title="No sessions yet">A session defines which hosts measure which traffic. Your token is read-only; an operator can create a session here or with <code>pillion session create</code>.</Notice>;
  return (
    <Notice title="No sessions yet" action={<a class="button main" href={href(["sessions", "new"])}><Icon name="plus" />New session</a>}>
      A session defines which hosts measure which traffic, and when. Live figures appear seconds after its start.
    </Notice>
  );
}

/** Rows recorded in the current run of a session. */
function rowsOf(s: Session): number {
  return s.tasks.filter((t) => t.role === "destination").reduce((n, t) => n + Number(t.counters.rows ?? 0n), 0);
}

/** Its next start or its end as text. */
export function timing(s: Session): { label: string; text: string; title: string } | undefined {
  const [next, started, ends] = [millis(s.nextStart), millis(s.started), millis(s.ends)];
  const say = (label: string, ms: number, text = moment(ms)) => ({ label, text, title: moment(ms) });
  if (s.state === "ended" || s.state === "stopping") return ends === undefined ? undefined : say("Ended", ends);
  if (s.state === "scheduled" || (s.state === "paused" && next !== undefined)) return next === undefined ? undefined : say("Next start", next);
  if (ends !== undefined && ends > Date.now()) return say("Ends", ends);
  return started === undefined ? undefined : say("Started", started, ago(started));
}

function SessionLine({ session: s }: { session: Session }) {
  const spec = s.spec;
  if (!spec) return null;
  const when = timing(s);
  const rows = rowsOf(s);
  return (
    <li class="session-line">
      <div class="session-name">
        <a href={href(["sessions", spec.name])}>{spec.name}</a> <Badge state={s.state} />
        {s.reason && <p class="small soft">{s.reason}</p>}
      </div>
      <dl>
        <div><dt>Pairs</dt><dd>{pairWords(s)}</dd></div>
        {limited.value
          ? <div class="wide"><dt>Sampling</dt><dd>{samplingWords(spec.sampling)}</dd></div>
          : <div class="wide"><dt>Traffic</dt><dd>{trafficWords(spec.filters)}, {samplingWords(spec.sampling)}</dd></div>}
        <div><dt>{when?.label ?? "When"}</dt><dd title={when?.title}>{when?.text ?? whenWords(spec)}{spec.cron && <span class="small soft block">{whenWords(spec)}</span>}</dd></div>
        {!limited.value && <div class="narrow"><dt>Rows in this run</dt><dd>{rows > 0 ? count(rows) : "–"}</dd></div>}
      </dl>
      <SessionActions session={s} />
    </li>
  );
}

function pairCount(s: Session): string {
  if (s.pairs.length === 0) return s.state === "scheduled" ? "pairs are resolved at the start" : "no pairs now";
  return s.pairs.length === 1 ? "1 pair" : `${s.pairs.length} pairs`;
}

function pairWords(s: Session) {
  const spec = s.spec;
  const side = (all: string[] | undefined): string => someOf((all ?? []).map((x) => (x === "*" ? "all" : x)));
  return <>{side(spec?.sources)} <span aria-label={spec?.both ? "to and from" : "to"}>{spec?.both ? "↔" : "→"}</span> {side(spec?.destinations)}<span class="small soft block">{pairCount(s)}</span></>;
}
