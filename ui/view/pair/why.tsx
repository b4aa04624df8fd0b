// Why a pair has no data, and what to do.
import type { ComponentChildren } from "preact";
import { limited, operates, who } from "../../data/account.ts";
import { agents, ends } from "../../data/agents.ts";
import { ago, count, moment } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import { selected } from "../../data/selector.ts";
import { lengthOf } from "../../data/span.ts";
import { millis } from "../../data/time.ts";
import type { Agent, Task } from "../../gen/agent_pb.ts";
import type { Session } from "../../gen/session_pb.ts";
import { Notice } from "../../part/notice.tsx";
import { look, showSpan } from "./look.ts";

/** Reports whether a session measures, or would measure, from one host to another. */
export function measures(s: Session, source: string, destination: string): boolean {
  if (s.pairs.length > 0) return s.pairs.some((p) => p.source === source && p.destination === destination);
  // An inactive session has no pairs.
  const { sources = [], destinations = [], both = false } = s.spec ?? {};
  const hosts = agents.value.value ?? [];
  const among = (selectors: string[], name: string): boolean => selectors.some((s) => s === "*" || s === name || selected(s, hosts).some((a) => a.name === name));
  const way = (from: string, to: string): boolean => among(sources, from) && among(destinations, to);
  return way(source, destination) || (both && way(destination, source));
}

const active = (s: Session): boolean => !["ended", "paused", "scheduled"].includes(s.state);

interface WhyProps {
  hosts: readonly Agent[] | undefined;
  sessions: readonly Session[] | undefined;
  source: string;
  destination: string;
  fault?: string;
  onRetry: () => void;
}

/** Why replaces the charts with the reason why they are empty. */
export function Why({ hosts, sessions, source, destination, fault, onRetry }: WhyProps) {
  if (fault) {
    return <Notice level="error" title="Could not load the data" action={<button type="button" onClick={onRetry}>Retry</button>}>{fault}</Notice>;
  }
  const unknown = hosts && [source, destination].filter((name) => !hosts.some((a) => a.name === name) && !ends.value.includes(name));
  const chosen = look.value.session;
  const all = (sessions ?? []).filter((s) => measures(s, source, destination) || measures(s, destination, source));
  const mine = chosen ? all.filter((s) => s.spec?.name === chosen) : all;
  const running = mine.find(active);
  if (!sessions || !hosts) return <Notice title="Loading…" />;
  if (running) return <Quiet session={running} hosts={hosts} source={source} destination={destination} />;
  if (mine[0]) return <Resting session={mine[0]} />;
  if (limited.value) {
    return (
      <Notice title="Nothing of this pair is visible" action={<><a class="button" href="#/">Go to the overview</a><Longer /></>}>
        The token {who.value?.name} sees only {who.value?.scope.join(", ")}, and no data between {source} and {destination} in this period.
      </Notice>
    );
  }
  if (unknown?.length) {
    return (
      <Notice title={`Unknown host ${unknown.join(" and ")}`} action={<a class="button" href="#/">Go to the overview</a>}>
        No host of this name has joined, and there is no data in this period.
      </Notice>
    );
  }
  return (
    <Notice title="No session measures this pair" action={<><Measure source={source} destination={destination} /><Longer /></>}>
      {chosen ? <>Session {chosen} has no data between {source} and {destination} in this period.</> : <>There is no data between {source} and {destination} in this period. {operates.value ? "Create a session to measure it." : "An operator can create a session."}</>}
    </Notice>
  );
}

function Measure({ source, destination }: { source: string; destination: string }) {
  if (!operates.value) return null;
  return <a class="button main" href={href(["sessions", "new"], { from: source, to: destination })}>Measure this pair</a>;
}

function Longer() {
  return <button type="button" onClick={() => showSpan({ live: true, length: lengthOf("24h") ?? 0 })}>Show the last 24 h</button>;
}

const page = (s: Session) => <a class="button" href={href(["sessions", s.spec?.name ?? ""])}>Session {s.spec?.name}</a>;

/** An inactive session. */
function Resting({ session }: { session: Session }) {
  const next = millis(session.nextStart);
  const ended = millis(session.ends);
  const name = session.spec?.name;
  let text: ComponentChildren = <>It measured this pair until {ended ? moment(ended) : "it ended"}. There is no data in this period.</>;
  if (!next && session.state === "scheduled") text = "It will measure this pair. It has not started yet.";
  if (session.state === "paused") text = "It marks no packets until it is resumed.";
  else if (next) text = <>It will measure this pair from {moment(next)}.</>;
  return <Notice title={`Session ${name} ${session.state === "ended" ? "has ended" : `is ${session.state}`}`} action={<>{page(session)}<Longer /></>}>{text}</Notice>;
}

/** A session is active, but there is no data. */
function Quiet({ session, hosts, source, destination }: { session: Session; hosts: readonly Agent[]; source: string; destination: string }) {
  const away = hosts.filter((a) => [source, destination].includes(a.name) && a.state !== "connected");
  const name = session.spec?.name;
  const lost = away[0];
  if (lost) {
    const seen = millis(lost.seen);
    return (
      <Notice level="warning" title={`${lost.name} is ${lost.state}`} action={<><a class="button" href={href(["agent", lost.name])}>Host {lost.name}</a>{page(session)}</>}>
        Not seen{seen ? <> since {moment(seen)} ({ago(seen)})</> : <> since the server started</>}. Its data is delivered when it reconnects.
      </Notice>
    );
  }
  const tasks = session.tasks.filter((t) => [source, destination].includes(t.agent));
  const broken = tasks.find((t) => t.error);
  if (broken) {
    return <Notice level="error" title={`The ${broken.role} on ${broken.agent} failed`} action={page(session)}>{broken.error}</Notice>;
  }
  const flow = look.value.narrowed;
  return (
    <Notice title={`No packets of this ${flow ? "flow" : "pair"} in this period`} action={<>{page(session)}<Longer /></>}>
      <p>Session {name} is {session.state}. It measures existing traffic and sends none itself.</p>
      <ul class="pair-checks">
        {flow && <li>The view is filtered by a flow, which may have ended.</li>}
        <li>Check that there is traffic between the hosts.</li>
        {(session.spec?.filters.length ?? 0) > 0 && <li>Only packets that match the filters are measured: <code>{session.spec?.filters.join("; ")}</code></li>}
        {tasks.filter((t) => t.role === "source").map((t) => <li key={t.agent}>{sourceWords(t)}</li>)}
      </ul>
    </Notice>
  );
}

/** The counters of a source as text. */
export function sourceWords(t: Task): string {
  const c = t.counters;
  const words = ["seen", "marked", "skipped"].filter((k) => c[k] !== undefined).map((k) => `${k} ${count(c[k])}`);
  return `The source on ${t.agent}${t.device ? ` (${t.device})` : ""} has ${words.length > 0 ? `${words.join(", ")} packets` : "reported no counters"}.`;
}

/** Why one direction is empty. */
export function missingWords(sessions: readonly Session[] | undefined, source: string, destination: string): string | undefined {
  const chosen = look.value.session;
  const mine = (sessions ?? []).filter((s) => active(s) && (!chosen || s.spec?.name === chosen));
  if (mine.some((s) => measures(s, source, destination))) return `No packets from ${source} to ${destination} in this period.`;
  if (limited.value) return `Packets from ${source} to ${destination} are not measured, or not visible with this token.`;
  const other = mine.find((s) => measures(s, destination, source));
  if (other) return `Session ${other.spec?.name} measures ${destination} → ${source} only.`;
  return undefined;
}
