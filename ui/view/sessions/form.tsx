// The form of a session: new, changed or copied.
import { Code, ConnectError } from "@connectrpc/connect";
import { useEffect, useRef, useState } from "preact/hooks";
import { agents } from "../../data/agents.ts";
import { sentence, sessionClient } from "../../data/client.ts";
import { changeCommand, createCommand } from "../../data/command.ts";
import { draftOf, type Draft } from "../../data/draft.ts";
import { differences } from "../../data/phrase.ts";
import { href } from "../../data/route.ts";
import { useResource } from "../../data/resource.ts";
import { sessions } from "../../data/sessions.ts";
import { ProblemSchema, type Session, type SessionSpec } from "../../gen/session_pb.ts";
import { CommandPanel } from "./command.tsx";
import { useDraft, type DraftState } from "./draft-state.ts";
import { LeaveGuard } from "./leave.tsx";
import { MoreSection } from "./more.tsx";
import { PlanPanel } from "./plan.tsx";
import { RowsSection } from "./rows.tsx";
import type { Form } from "./section.tsx";
import { SamplingSection, TrafficSection } from "./traffic.tsx";
import { WhenSection } from "./when.tsx";
import { WhoSection } from "./who.tsx";

export interface SessionFormProps {
  /** Under which name what is typed is kept. */
  keep: string;
  title: string;
  begin: Draft;
  /** The session that is changed; none: a new one. */
  changing?: Session;
}

/** SessionForm asks what to measure, shows what that means, and starts it when told to. */
export function SessionForm({ keep, title, begin, changing }: SessionFormProps) {
  useResource(sessions);
  const hosts = useResource(agents).value.value ?? [];
  const taken = new Set(sessions.value.value?.map((s) => s.spec?.name ?? ""));
  const state = useDraft(keep, begin, taken, !changing);
  const [more, setMore] = useState(() => usesMore(begin));
  const [done, setDone] = useState(false);
  const { draft, placed } = state;
  useEffect(() => {
    if (placed.sections.has("more")) setMore(true);
  }, [placed.sections.has("more")]);
  const form: Form = { draft, change: state.change, fault: state.fault, agents: hosts };
  const zone = draft.when.kind === "now" ? begin.when.zone : draft.when.zone;
  const command = changing ? changeCommand(state.spec) : createCommand(state.spec);
  return (
    <div class="session-form">
      <header class="row spread form-head">
        <div><p class="small"><a href={changing ? href(["sessions", draft.name]) : href(["sessions"])}>{changing ? draft.name : "Sessions"}</a></p><h1>{title}</h1></div>
      </header>
      {state.restored && state.typed && (
        <p class="note row" role="status">What you had typed before is back. <button type="button" onClick={state.reset}>Start over</button></p>
      )}
      {placed.rest.length > 0 && <div class="note bad" role="alert"><ul>{placed.rest.map((t) => <li key={t}>{t}</li>)}</ul></div>}
      <div class="form-columns">
        <div class="stack form-main">
          <WhoSection form={form} fixed={Boolean(changing)} />
          <TrafficSection form={form} />
          <SamplingSection form={form} />
          <RowsSection form={form} />
          <WhenSection form={form} />
          <MoreSection form={form} open={more} problems={placed.sections.get("more") ?? 0} onToggle={setMore} />
        </div>
        <aside class="stack form-side" aria-label="Plan">
          {changing?.spec && <Changes before={changing.spec} after={state.spec} running={changing.state === "running" || changing.state === "degraded"} />}
          <PlanPanel plan={state.plan} fresh={state.fresh} fault={state.planFault} zone={zone} problems={placed.count} />
          <CommandPanel text={command} />
        </aside>
      </div>
      <Submit state={state} changing={changing} onDone={() => setDone(true)} openMore={() => setMore(true)} />
      <LeaveGuard typed={state.typed && !done} forget={state.forget} />
    </div>
  );
}

/** Reports whether something in the folded part is not as usual. */
function usesMore(d: Draft): boolean {
  return d.samplingFor.length > 0 || d.device.length > 0 || d.routers.length > 0 || d.encoding !== "udp" || d.family !== "any" || d.lease !== "10s" || !d.tracing || d.trace !== "1m";
}

function Changes({ before, after, running }: { before: SessionSpec; after: SessionSpec; running: boolean }) {
  const all = differences(before, after);
  return (
    <section class="panel changes" aria-labelledby="changes-title">
      <header><h2 id="changes-title">What changes</h2></header>
      {all.length === 0 ? <p class="soft">Nothing differs from now.</p> : (
        <dl>{all.map((d) => <div key={d.label}><dt>{d.label}</dt><dd><del>{d.before}</del> <ins>{d.after}</ins></dd></div>)}</dl>
      )}
      {running && <p class="field-help">The session runs: it follows without a gap where it can.</p>}
    </section>
  );
}

function verb(draft: Draft, changing: Session | undefined): { label: string; busy: string } {
  if (changing) return { label: "Change", busy: "Changing…" };
  return draft.when.kind === "now" ? { label: "Start", busy: "Starting…" } : { label: "Schedule", busy: "Scheduling…" };
}

/** Why the button does nothing; undefined where it does. */
function obstacle(state: DraftState, changing: Session | undefined): string | undefined {
  const n = state.placed.count;
  if (state.draft.sources.length === 0 || state.draft.destinations.length === 0) return "Choose sources and destinations.";
  if (n > 0) return n === 1 ? "One problem has to be solved first." : `${n} problems have to be solved first.`;
  if (state.planFault) return `The server could not check it: ${state.planFault}`;
  if (!state.fresh) return "The server is checking it.";
  if (changing?.spec && differences(changing.spec, state.spec).length === 0) return "Nothing differs from now.";
  return undefined;
}

function Submit({ state, changing, onDone, openMore }: { state: DraftState; changing: Session | undefined; onDone(): void; openMore(): void }) {
  const [busy, setBusy] = useState(false);
  const [refusal, setRefusal] = useState<string>();
  const pending = useRef(false);
  const why = obstacle(state, changing);
  const words = verb(state.draft, changing);
  useEffect(() => setRefusal(undefined), [state.spec]);
  useEffect(() => {
    if (!pending.current) return;
    pending.current = false;
    focusFault();
  });
  const press = async (): Promise<void> => {
    if (busy) return;
    if (why) {
      state.insist();
      if (state.placed.sections.has("more")) openMore();
      pending.current = true; // faults that were not shown yet come with the next drawing
      return;
    }
    setBusy(true);
    setRefusal(undefined);
    try {
      const made = await send(state.spec, Boolean(changing));
      onDone();
      state.forget();
      void sessions.refresh();
      location.hash = made ? landing(made, Boolean(changing)) : href(["sessions", state.spec.name]);
    } catch (error) {
      setRefusal(refused(error));
      setBusy(false);
    }
  };
  return (
    <div class="submit">
      {refusal && <p class="field-fault" role="alert">{refusal}</p>}
      <div class="row">
        <button type="button" class="main" aria-disabled={Boolean(why) || busy} aria-describedby="submit-why" onClick={() => void press()}>{busy ? words.busy : words.label}</button>
        <a class="button" href={changing ? href(["sessions", state.draft.name]) : href(["sessions"])}>Cancel</a>
        <p id="submit-why" class="soft" role="status">{why ?? `Nothing runs before you press ${words.label}.`}</p>
      </div>
    </div>
  );
}

function focusFault(): void {
  const first = document.querySelector<HTMLElement>(".session-form [aria-invalid='true']");
  first?.focus({ preventScroll: true });
  first?.scrollIntoView({ block: "center" });
}

async function send(spec: SessionSpec, change: boolean): Promise<Session | undefined> {
  if (change) return (await sessionClient.changeSession({ spec })).session;
  return (await sessionClient.createSession({ spec })).session;
}

/** All that the server says of a refusal. */
function refused(error: unknown): string {
  const fault = ConnectError.from(error);
  const problems = fault.code === Code.InvalidArgument ? fault.findDetails(ProblemSchema).map((p) => `${p.field}: ${p.message}.`) : [];
  return problems.length > 0 ? `The server refused it. ${problems.join(" ")}` : sentence(error);
}

/** Where to go next: to the one pair of hosts that now runs, else to the session. */
function landing(s: Session, changed: boolean): string {
  const name = s.spec?.name ?? "";
  const runs = s.state === "starting" || s.state === "running" || s.state === "degraded";
  const hosts = new Set(s.pairs.flatMap((p) => [p.source, p.destination]));
  const first = s.pairs.find((p) => s.spec?.sources.includes(p.source)) ?? s.pairs[0];
  if (changed || !runs || !first || hosts.size > 2) return href(["sessions", name]);
  return href(["pair", first.source, first.destination], { session: name });
}

/** The form of what a session is now. */
export const changing = (s: Session): Draft | undefined => s.spec && draftOf(s.spec);
