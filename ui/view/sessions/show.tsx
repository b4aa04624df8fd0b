// One session: its state, specification, pairs, tasks and runs.
import { useEffect, useMemo, useState } from "preact/hooks";
import { limited } from "../../data/account.ts";
import { createCommand } from "../../data/command.ts";
import { defaults } from "../../data/defaults.ts";
import { pairsFault, pairsVersion, pairTable, watchPairs } from "../../data/pairs.ts";
import { facts, pointNames, whenWords } from "../../data/phrase.ts";
import { settings } from "../../data/points.ts";
import { duration, moment, packetRate, rate, share } from "../../data/quantity.ts";
import { go, href } from "../../data/route.ts";
import { useResource } from "../../data/resource.ts";
import { pairsOf, sessionNamed } from "../../data/runs.ts";
import { millis } from "../../data/time.ts";
import type { Pair, Session, SessionSpec } from "../../gen/session_pb.ts";
import { Badge } from "../../part/badge.tsx";
import { Findings } from "../../part/findings.tsx";
import { Notice } from "../../part/notice.tsx";
import { useTitle } from "../../part/title.ts";
import { PointPanels } from "../points.tsx";
import { SessionActions } from "./actions.tsx";
import { CommandPanel } from "./command.tsx";
import { RunHistory } from "./history.tsx";
import { timing } from "./list.tsx";
import { Tasks } from "./tasks.tsx";

/** SessionPage shows one session. */
export function SessionPage({ name }: { name: string }) {
  useTitle(`Session ${name}`);
  const { value, fault } = useResource(useMemo(() => sessionNamed(name), [name]));
  const { session, reasons = [] } = value.value ?? {};
  const pairs = usePairs(session);
  if (!session?.spec) {
    if (!fault.value) return <Notice title={`Loading ${name}`} />;
    return <Notice title={`Could not load session ${name}`} level="error" action={<a class="button" href={href(["sessions"])}>All sessions</a>}>{fault.value}</Notice>;
  }
  return (
    <div class="stack">
      <header class="row spread">
        <div>
          <p class="small"><a href={href(["sessions"])}>Sessions</a></p>
          <div class="row"><h1>{name}</h1><Badge state={session.state} /></div>
        </div>
        <SessionActions session={session} words after={(act) => { if (act === "delete") go(["sessions"]); }} />
      </header>
      {fault.value && <p class="field-fault" role="alert">This page is out of date: {fault.value}</p>}
      {reasons.length > 0 ? <Findings list={reasons} /> : session.reason && <p class="note">{sentenceOf(session)}</p>}
      <div class="show-columns">
        <div class="stack">
          <Pairs session={session} pairs={pairs} />
          <RunHistory pairs={pairs} runs={value.value?.runs ?? []} />
          <PointPanels names={pointNames(session.spec)} where={{ session: name }} />
          <Tasks session={session} />
        </div>
        <aside class="stack" aria-label="Specification">
          <Facts session={session} />
          {!limited.value && <Command spec={session.spec} />}
        </aside>
      </div>
    </div>
  );
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const sentenceOf = (s: Session): string => `${capital(s.state)}: ${s.reason}`;

/** The running pairs, else those that would run now. */
function usePairs(session: Session | undefined): readonly Pair[] {
  const [meant, setMeant] = useState<readonly Pair[]>([]);
  const key = session && session.pairs.length === 0 ? `${session.spec?.name} ${session.revision} ${session.state}` : undefined;
  useEffect(() => {
    if (!session || key === undefined) return;
    const abort = new AbortController();
    pairsOf(session, abort.signal).then(setMeant, () => {}); // the page shows the reason elsewhere
    return () => abort.abort();
  }, [key]);
  return session && session.pairs.length > 0 ? session.pairs : meant;
}

/** Command shows what creates such a session. */
function Command({ spec }: { spec: SessionSpec }) {
  return <CommandPanel text={createCommand(spec, useResource(defaults).value.value)} />;
}

/** Facts about other hosts, which a limited token does not get. */
const concealed = new Set(["Directions", "Traffic", "Sampling per source", "Interfaces", "Hosts behind agents", "Waypoints", "Routers", "Further points"]);

function Facts({ session }: { session: Session }) {
  if (!session.spec) return null;
  const described = useResource(settings).value.value ?? [];
  const when = timing(session);
  const created = millis(session.created);
  return (
    <section class="panel" aria-labelledby="facts-title">
      <header><h2 id="facts-title">Specification</h2></header>
      <p>{capital(whenWords(session.spec))}.{when && <span class="soft block">{when.label}: {when.text}</span>}</p>
      <dl class="session-facts">
        {facts(session.spec, described).filter((f) => f.label !== "When" && !(limited.value && concealed.has(f.label))).map((f) => <div key={f.label}><dt>{f.label}</dt><dd>{f.text}</dd></div>)}
        {created !== undefined && <div><dt>Created</dt><dd>{moment(created)}{!limited.value && ` by ${session.createdBy || "unknown"}`}</dd></div>}
        <div><dt>Revision</dt><dd>{session.revision.toString()}</dd></div>
      </dl>
    </section>
  );
}

const staleMs = 10_000;
const many = 50;

function Pairs({ session, pairs: all }: { session: Session; pairs: readonly Pair[] }) {
  const name = session.spec?.name ?? "";
  const runs = ["running", "starting", "degraded"].includes(session.state);
  useEffect(() => (runs ? watchPairs(name) : undefined), [name, runs]);
  void pairsVersion.value;
  const pairs = all.slice(0, many);
  return (
    <section class="panel" aria-labelledby="pairs-title">
      <header><h2 id="pairs-title">Pairs</h2><span class="faint">{all.length}</span>{!runs && pairs.length > 0 && <span class="soft small">{session.state === "ended" ? "from its specification and the current agents" : "if it started now"}</span>}{runs && pairsFault.value && <span class="field-fault" role="alert">No current figures: {pairsFault.value}</span>}</header>
      {pairs.length === 0 ? <p class="soft">No pair of agents matches now.</p> : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of pairs">
          <table>
            <thead><tr><th scope="col">Pair</th><th scope="col" class="number">Median</th><th scope="col" class="number">p99</th><th scope="col" class="number">Loss, 10 s</th><th scope="col" class="number">Marked</th><th scope="col" class="number">Throughput</th></tr></thead>
            <tbody>
              {pairs.map((p) => (
                <tr key={`${p.source} ${p.destination}`}>
                  <th scope="row"><a href={href(["pair", p.source, p.destination], { session: name })}>{p.source} <span aria-label="to">→</span> {p.destination}</a></th>
                  <PairCells pair={runs ? pairTable.find(p.source, p.destination) : -1} runs={runs} />
                </tr>
              ))}
            </tbody>
          </table>
          {all.length > many && <p class="soft">{all.length - many} more pairs in the <a href={href([], { session: name })}>matrix</a>.</p>}
        </div>
      )}
    </section>
  );
}

function PairCells({ pair, runs }: { pair: number; runs: boolean }) {
  const age = pairTable.age(pair);
  if (pair < 0 || age > staleMs) {
    return <td colSpan={5} class="soft">{!runs ? "not measured now" : pair < 0 ? "no marked packets yet" : `no marked packets for ${duration(age * 1e6)}`}</td>;
  }
  return (
    <>
      <td class="number">{duration(pairTable.p50[pair])}</td>
      <td class="number">{duration(pairTable.p99[pair])}</td>
      <td class="number">{share(pairTable.loss(pair))}</td>
      <td class="number">{packetRate(pairTable.packetRate(pair))}</td>
      <td class="number">{rate(pairTable.rate[pair])}</td>
    </>
  );
}
