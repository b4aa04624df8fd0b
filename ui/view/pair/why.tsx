// Why there is nothing to see of a pair, and what to do.
import type { ComponentChildren } from "preact";
import { operates } from "../../data/account.ts";
import { agents } from "../../data/agents.ts";
import { ago, count, moment } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import { lengthOf } from "../../data/span.ts";
import { millis } from "../../data/time.ts";
import type { Agent, Task } from "../../gen/agent_pb.ts";
import type { Session } from "../../gen/session_pb.ts";
import { Notice } from "../../part/notice.tsx";
import { look, showSpan } from "./look.ts";

/** Reports whether a session measures from one host to another, or would if it ran. */
export function measures(s: Session, source: string, destination: string): boolean {
  if (s.pairs.length > 0) return s.pairs.some((p) => p.source === source && p.destination === destination);
  // One that does not run has no pairs yet, or no longer.
  const { sources = [], destinations = [], both = false } = s.spec ?? {};
  const way = (from: string, to: string): boolean => sources.some((c) => chooses(c, from)) && destinations.some((c) => chooses(c, to));
  return way(source, destination) || (both && way(destination, source));
}

/** Reports whether a session's choice of hosts, by name, label or * for all, takes a host in. */
function chooses(choice: string, name: string): boolean {
  if (choice === "*" || choice === name) return true;
  const labels = agents.value.value?.find((a) => a.name === name)?.labels ?? {};
  const [key = "", value] = choice.split("=", 2);
  return key in labels && (value === undefined || labels[key] === value);
}

const active = (s: Session): boolean => !["ended", "paused", "scheduled"].includes(s.state);

export interface WhyProps {
  hosts: readonly Agent[] | undefined;
  sessions: readonly Session[] | undefined;
  source: string;
  destination: string;
  fault?: string;
  onRetry: () => void;
}

/** Why says in place of the charts why they are empty. */
export function Why({ hosts, sessions, source, destination, fault, onRetry }: WhyProps) {
  if (fault) {
    return <Notice level="error" title="The server did not say what was measured" action={<button type="button" onClick={onRetry}>Ask again</button>}>{fault}</Notice>;
  }
  const unknown = hosts && [source, destination].filter((name) => !hosts.some((a) => a.name === name));
  const chosen = look.value.session;
  const all = (sessions ?? []).filter((s) => measures(s, source, destination) || measures(s, destination, source));
  const mine = chosen ? all.filter((s) => s.spec?.name === chosen) : all;
  const running = mine.find(active);
  if (!sessions || !hosts) return <Notice title="Asking the server">What was measured between {source} and {destination} is on its way.</Notice>;
  if (running) return <Quiet session={running} hosts={hosts} source={source} destination={destination} />;
  if (mine[0]) return <Resting session={mine[0]} />;
  if (unknown?.length) {
    return (
      <Notice title={`No host is called ${unknown.join(" or ")}`} action={<a class="button" href="#/">To the overview</a>}>
        Nothing is known of it by this name, and nothing was measured in this time.
      </Notice>
    );
  }
  return (
    <Notice title="No session measures this pair" action={<><Measure source={source} destination={destination} /><Longer /></>}>
      {chosen ? <>The session {chosen} has nothing between {source} and {destination} in this time.</> : <>Nothing was measured between {source} and {destination} in this time{operates.value ? ": a session does that." : ". Ask an operator for a session."}</>}
    </Notice>
  );
}

function Measure({ source, destination }: { source: string; destination: string }) {
  if (!operates.value) return null;
  return <a class="button main" href={href(["sessions", "new"], { from: source, to: destination })}>Measure this pair</a>;
}

function Longer() {
  return <button type="button" onClick={() => showSpan({ live: true, length: lengthOf("24h") ?? 0 })}>Look at the last 24 h</button>;
}

const page = (s: Session) => <a class="button" href={href(["sessions", s.spec?.name ?? ""])}>Session {s.spec?.name}</a>;

/** A session that does not run now. */
function Resting({ session }: { session: Session }) {
  const next = millis(session.nextStart);
  const ended = millis(session.ends);
  const name = session.spec?.name;
  let text: ComponentChildren = <>It measured this pair, and has ended{ended ? <> at {moment(ended)}</> : null}. There is nothing in this time.</>;
  if (!next && session.state === "scheduled") text = "It measures this pair, and has not started yet.";
  if (session.state === "paused") text = "It does not mark packets until somebody resumes it.";
  else if (next) text = <>It measures this pair, and starts at {moment(next)}.</>;
  return <Notice title={`Session ${name} ${session.state === "ended" ? "has ended" : `is ${session.state}`}`} action={<>{page(session)}<Longer /></>}>{text}</Notice>;
}

/** A session runs, and yet nothing was measured. */
function Quiet({ session, hosts, source, destination }: { session: Session; hosts: readonly Agent[]; source: string; destination: string }) {
  const away = hosts.filter((a) => [source, destination].includes(a.name) && a.state !== "connected");
  const name = session.spec?.name;
  const lost = away[0];
  if (lost) {
    const seen = millis(lost.seen);
    return (
      <Notice level="warning" title={`${lost.name} is ${lost.state}`} action={<><a class="button" href={href(["agent", lost.name])}>Host {lost.name}</a>{page(session)}</>}>
        The server has not heard it{seen ? <> since {moment(seen)} ({ago(seen)})</> : null}. What it measures meanwhile comes when it is back.
      </Notice>
    );
  }
  const tasks = session.tasks.filter((t) => [source, destination].includes(t.agent));
  const broken = tasks.find((t) => t.error);
  if (broken) {
    return <Notice level="error" title={`The ${broken.role} does not run on ${broken.agent}`} action={page(session)}>{broken.error}</Notice>;
  }
  const flow = look.value.narrowed;
  return (
    <Notice title={`No packet of this ${flow ? "flow" : "pair"} was measured in this time`} action={<>{page(session)}<Longer /></>}>
      <p>Session {name} is {session.state}. It measures traffic that is there, and sends none itself.</p>
      <ul class="pair-checks">
        {flow && <li>The view is narrowed to one flow, which may have ended.</li>}
        <li>Is there traffic between the hosts?</li>
        {(session.spec?.filters.length ?? 0) > 0 && <li>Only packets that fit the filters are measured: <code>{session.spec?.filters.join("; ")}</code></li>}
        {tasks.filter((t) => t.role === "source").map((t) => <li key={t.agent}>{sourceWords(t)}</li>)}
      </ul>
    </Notice>
  );
}

/** What a source says of itself. */
export function sourceWords(t: Task): string {
  const c = t.counters;
  const words = ["seen", "marked", "skipped"].filter((k) => c[k] !== undefined).map((k) => `${k} ${count(c[k])}`);
  return `The source on ${t.agent}${t.device ? ` (${t.device})` : ""} has ${words.length > 0 ? `${words.join(", ")} packets` : "not said what it saw"}.`;
}

/** Why one direction is empty while the other is not. */
export function missingWords(sessions: readonly Session[] | undefined, source: string, destination: string): string | undefined {
  const chosen = look.value.session;
  const mine = (sessions ?? []).filter((s) => active(s) && (!chosen || s.spec?.name === chosen));
  if (mine.some((s) => measures(s, source, destination))) return `No packet from ${source} to ${destination} was measured in this time.`;
  const other = mine.find((s) => measures(s, destination, source));
  if (other) return `Session ${other.spec?.name} measures ${destination} → ${source} only.`;
  return undefined;
}
