// The form of a new, edited or copied session.
import { Code, ConnectError } from "@connectrpc/connect";
import { useEffect, useRef, useState } from "preact/hooks";
import { agents } from "../../data/agents.ts";
import { sentence, sessionClient } from "../../data/client.ts";
import { changeCommand, createCommand } from "../../data/command.ts";
import { defaults } from "../../data/defaults.ts";
import { draftOf, newDraft, type Draft } from "../../data/draft.ts";
import { settings } from "../../data/points.ts";
import { differences } from "../../data/phrase.ts";
import { href } from "../../data/route.ts";
import { useResource } from "../../data/resource.ts";
import { sessions } from "../../data/sessions.ts";
import { ProblemSchema, type PointOption, type Session, type SessionSpec } from "../../gen/session_pb.ts";
import { useTitle } from "../../part/title.ts";
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

interface SessionFormProps {
  /** Key under which the input is kept across reloads. */
  keep: string;
  title: string;
  begin: Draft;
  /** The session being edited; none: a new one. */
  changing?: Session;
}

/** SessionForm edits a specification, shows its plan, and submits it. */
export function SessionForm({ keep, title, begin, changing }: SessionFormProps) {
  useTitle(title);
  useResource(sessions);
  const hosts = useResource(agents).value.value ?? [];
  const taken = new Set(sessions.value.value?.map((s) => s.spec?.name ?? ""));
  const state = useDraft(keep, begin, taken, !changing);
  const usual = useResource(defaults).value.value;
  const all = useResource(settings).value.value ?? [];
  const [more, setMore] = useState(() => usesMore(begin, usual));
  const [done, setDone] = useState(false);
  const { draft, placed } = state;
  useEffect(() => {
    if (placed.sections.has("more")) setMore(true);
  }, [placed.sections.has("more")]);
  const form: Form = { draft, change: state.change, fault: state.fault, agents: hosts, setting: (name) => all.find((s) => s.name === name) };
  const zone = draft.when.kind === "now" ? begin.when.zone : draft.when.zone;
  const command = changing ? changeCommand(state.spec) : createCommand(state.spec, usual);
  return (
    <div class="session-form">
      <header class="row spread form-head">
        <div><p class="small"><a href={changing ? href(["sessions", draft.name]) : href(["sessions"])}>{changing ? draft.name : "Sessions"}</a></p><h1>{title}</h1></div>
      </header>
      {state.restored && state.typed && (
        <p class="note row" role="status">Restored your unsaved input. <button type="button" onClick={state.reset}>Discard</button></p>
      )}
      {placed.rest.length > 0 && <div class="note bad" role="alert"><ul>{placed.rest.map((t) => <li key={t}>{t}</li>)}</ul></div>}
      <div class="form-columns">
        <div class="stack form-main">
          <WhoSection form={form} fixed={Boolean(changing)} />
          <TrafficSection form={form} />
          <SamplingSection form={form} />
          <RowsSection form={form} />
          <WhenSection form={form} />
          <MoreSection form={form} settings={all} open={more} problems={placed.sections.get("more") ?? 0} onToggle={setMore} />
        </div>
        <aside class="stack form-side" aria-label="Plan">
          {changing?.spec && <Changes settings={all} before={changing.spec} after={state.plan?.spec ?? changing.spec} running={changing.state === "running" || changing.state === "degraded"} />}
          <PlanPanel plan={state.plan} fresh={state.fresh} fault={state.planFault} zone={zone} problems={placed.count} />
          <CommandPanel text={command} />
        </aside>
      </div>
      <Submit state={state} changing={changing} onDone={() => setDone(true)} openMore={() => setMore(true)} />
      <LeaveGuard typed={state.typed && !done} forget={state.forget} />
    </div>
  );
}

/** Reports whether an advanced option differs from its default. */
function usesMore(d: Draft, usual: SessionSpec | undefined): boolean {
  const advanced = ({ samplingFor, device, transit, waypoints, routers, points, tracing, trace, settings }: Draft): string =>
    JSON.stringify({ samplingFor, device, transit, waypoints, routers, points, tracing, trace, settings });
  return usual !== undefined && advanced(d) !== advanced(newDraft(usual));
}

function Changes({ settings, before, after, running }: { settings: readonly PointOption[]; before: SessionSpec; after: SessionSpec; running: boolean }) {
  const all = differences(before, after, settings);
  return (
    <section class="panel changes" aria-labelledby="changes-title">
      <header><h2 id="changes-title">Changes</h2></header>
      {all.length === 0 ? <p class="soft">No changes.</p> : (
        <dl>{all.map((d) => <div key={d.label}><dt>{d.label}</dt><dd><del>{d.before}</del> <ins>{d.after}</ins></dd></div>)}</dl>
      )}
      {running && <p class="field-help">The session is running. Changes apply without a gap where possible.</p>}
    </section>
  );
}

function verb(draft: Draft, changing: Session | undefined): { label: string; busy: string } {
  if (changing) return { label: "Save", busy: "Saving…" };
  return draft.when.kind === "now" ? { label: "Start", busy: "Starting…" } : { label: "Schedule", busy: "Scheduling…" };
}

/** Why the form cannot be submitted; undefined if it can. */
function obstacle(state: DraftState, changing: Session | undefined): string | undefined {
  const n = state.placed.count;
  if (state.draft.sources.length === 0 || state.draft.destinations.length === 0) return "Choose sources and destinations.";
  if (n > 0) return n === 1 ? "Fix 1 problem first." : `Fix ${n} problems first.`;
  if (state.planFault) return `Validation failed: ${state.planFault}`;
  if (!state.fresh) return "Validating…";
  if (changing?.spec && state.plan?.spec && differences(changing.spec, state.plan.spec, []).length === 0) return "No changes.";
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
      pending.current = true; // the problems appear with the next rendering
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
        <p id="submit-why" class="soft" role="status">{why ?? `Nothing starts until you press ${words.label}.`}</p>
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

/** The server's reasons for a rejection. */
function refused(error: unknown): string {
  const fault = ConnectError.from(error);
  const problems = fault.code === Code.InvalidArgument ? fault.findDetails(ProblemSchema).map((p) => `${p.field}: ${p.message}.`) : [];
  return problems.length > 0 ? `The server rejected the session. ${problems.join(" ")}` : sentence(error);
}

/** Where to go next: to the pair if the session runs between two hosts only, else to the session. */
function landing(s: Session, changed: boolean): string {
  const name = s.spec?.name ?? "";
  const runs = s.state === "starting" || s.state === "running" || s.state === "degraded";
  const hosts = new Set(s.pairs.flatMap((p) => [p.source, p.destination]));
  const first = s.pairs.find((p) => s.spec?.sources.includes(p.source)) ?? s.pairs[0];
  if (changed || !runs || !first || hosts.size > 2) return href(["sessions", name]);
  return href(["pair", first.source, first.destination], { session: name });
}

/** The form of an existing session. */
export const changing = (s: Session): Draft | undefined => s.spec && draftOf(s.spec);
