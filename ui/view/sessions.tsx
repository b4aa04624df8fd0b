// Sessions: the list, the calendar of runs, one session, and the form for new and edited ones.
import "../style/form.css";
import "../style/sessions.css";
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { operates, who } from "../data/account.ts";
import { defaults } from "../data/defaults.ts";
import { copyOf, newDraft } from "../data/draft.ts";
import { href, route } from "../data/route.ts";
import { useResource } from "../data/resource.ts";
import { sessionNamed } from "../data/runs.ts";
import type { Session, SessionSpec } from "../gen/session_pb.ts";
import { Icon } from "../part/icon.tsx";
import { Notice } from "../part/notice.tsx";
import { useTitle } from "../part/title.ts";
import { RunsView } from "./sessions/calendar.tsx";
import { changing, SessionForm } from "./sessions/form.tsx";
import { SessionList } from "./sessions/list.tsx";
import { SessionPage } from "./sessions/show.tsx";

/** SessionsView shows all sessions, one, or a form, by the address. */
export function SessionsView() {
  const [, name, what] = route.value.words;
  if (name === undefined) return <AllSessions />;
  if (name === "new") return <MayChange>{(usual) => <NewSession usual={usual} />}</MayChange>;
  if (what === "change") return <MayChange>{() => <ChangeSession name={name} />}</MayChange>;
  if (what !== undefined) return <Notice title="Page not found" action={<a class="button" href={href(["sessions", name])}>Go to session {name}</a>}>There is no page at this address.</Notice>;
  return <SessionPage name={name} />;
}

function AllSessions() {
  const runs = route.value.query.get("show") === "runs";
  useTitle(runs ? "Runs" : "Sessions");
  return (
    <div class="stack">
      <header class="row spread">
        <h1>Sessions</h1>
        {operates.value && <a class="button main" href={href(["sessions", "new"])}><Icon name="plus" />New session</a>}
      </header>
      <nav class="tabs" aria-label="Sessions as">
        <a href={href(["sessions"])} aria-current={runs ? undefined : "page"}>List</a>
        <a href={href(["sessions"], { show: "runs" })} aria-current={runs ? "page" : undefined}>Runs</a>
      </nav>
      {runs ? <RunsView /> : <SessionList />}
    </div>
  );
}

/** MayChange shows its children to operators, and to viewers why they cannot use them. */
function MayChange({ children }: { children: (defaults: SessionSpec) => ComponentChildren }) {
  if (!who.value) return <Notice title="Loading…" />;
  if (operates.value) return <WithDefaults>{children}</WithDefaults>;
  return (
    <Notice title="Your token is read-only" level="warning" action={<a class="button" href={href(["sessions"])}>All sessions</a>}>
      The token {who.value.name} has the role {who.value.role}. Creating and editing sessions requires the role operator. An administrator of the server can create such a token.
    </Notice>
  );
}

/** WithDefaults shows its children when the defaults are known. */
function WithDefaults({ children }: { children: (defaults: SessionSpec) => ComponentChildren }) {
  const { value, fault } = useResource(defaults);
  if (value.value) return <>{children(value.value)}</>;
  return fault.value ? <Notice title="Could not load the defaults" level="error">{fault.value}</Notice> : <Notice title="Loading…" />;
}

function NewSession({ usual }: { usual: SessionSpec }) {
  const query = route.value.query;
  const copy = query.get("copy");
  if (copy !== null) return <Loaded key={copy} name={copy}>{(s) => <SessionForm keep={`copy.${copy}`} title={`New session, copied from ${copy}`} begin={s.spec ? copyOf(s.spec) : newDraft(usual)} />}</Loaded>;
  const side = (key: string): string[] => query.getAll(key).flatMap((t) => t.split(",")).map((t) => t.trim()).filter(Boolean);
  return <SessionForm key={query.toString()} keep={`new.${query.toString()}`} title="New session" begin={newDraft(usual, side("from"), side("to"))} />;
}

function ChangeSession({ name }: { name: string }) {
  return (
    <Loaded key={name} name={name}>
      {(s) => {
        const begin = changing(s);
        if (s.state === "ended" || s.state === "stopping" || !begin) return <Notice title={`${name} has ended`} action={<a class="button" href={href(["sessions", "new"], { copy: name })}>Copy session</a>}>A session that has ended cannot be edited. Copy it instead.</Notice>;
        return <SessionForm keep={`change.${name}.${s.revision}`} title={`Edit ${name}`} begin={begin} changing={s} />;
      }}
    </Loaded>
  );
}

/** Loads a session once; later changes on the server do not affect the form. */
function Loaded({ name, children }: { name: string; children(s: Session): ComponentChildren }) {
  const { value, fault } = useResource(useMemo(() => sessionNamed(name), [name]));
  const [first, setFirst] = useState<Session>();
  const session = first ?? value.value?.session;
  if (session && !first) setFirst(session);
  if (session) return <>{children(session)}</>;
  if (fault.value) return <Notice title={`Could not load session ${name}`} level="error" action={<a class="button" href={href(["sessions"])}>All sessions</a>}>{fault.value}</Notice>;
  return <Notice title={`Loading ${name}`} />;
}
