// The path of the selected pair.
import { useEffect, useState } from "preact/hooks";
import { limited, operates } from "../../data/account.ts";
import { sentence, topologyClient } from "../../data/client.ts";
import { minute, minuteFault } from "../../data/minute.ts";
import { ago, count, duration, lossOf, moment, share } from "../../data/quantity.ts";
import { href, refine } from "../../data/route.ts";
import { inPackets, methodOf } from "../../data/one-way.ts";
import { pairName, retrace, type PathEntry } from "../../data/topology.ts";
import type { Path } from "../../gen/topology_pb.ts";
import { Notice } from "../../part/notice.tsx";
import { choosePair, choosePath, type Choice } from "./choice.ts";
import type { Figure } from "./grade.ts";
import { Hops, type Naming } from "./hops.tsx";
import { OneWays, type NodeNaming } from "./one-way.tsx";
import { Then } from "./then.tsx";

interface PathProps {
  choice: Choice;
  /** All paths of the pair, and the shown one. */
  all: PathEntry[];
  shown?: PathEntry | undefined;
  /** The shown one with its hops, once loaded, and why it could not be. */
  path?: Path | undefined;
  fault?: string | undefined;
  naming: Naming;
  /** The names of nodes. */
  nodes: NodeNaming;
  hosts: string[];
  /** Figures of the edges of the shown path. */
  edges: (Figure | undefined)[];
}

/** PathPanel shows the path of the selected pair, or how to select one. */
export function PathPanel({ choice, all, shown, path, fault, naming, nodes, hosts, edges }: PathProps) {
  const { source, destination } = choice;
  if (!source || !destination) {
    const half = source || destination;
    return (
      <section class="panel" aria-label="Path">
        <Notice title={half ? `From ${source || "?"} to ${destination || "?"}` : "No pair selected"}>
          {half ? "Select the other host: click on it, or type its name above." : "Click on two hosts, type their names above, or select a path in the table below to list its hops."}
        </Notice>
      </section>
    );
  }
  return (
    <section class="panel path-panel" aria-labelledby="path-title">
      <header>
        <h2 id="path-title">{source} to {destination}</h2>
        <a href={href(["pair", source, destination])}>Delay and loss</a>
        <button class="quiet" type="button" onClick={() => choosePair("", "")}>Clear</button>
      </header>
      <Measured source={source} destination={destination} />
      {all.length > 1 && shown && <Which all={all} shown={shown} />}
      {shown ? <Facts entry={shown} path={path} /> : <Missing sites={choice.open !== undefined} known={hosts.includes(source) && hosts.includes(destination)} others={all} same={source === destination} />}
      {operates.value && source !== destination && <TraceNow key={pairName(source, destination)} choice={choice} path={shown} />}
      {shown && fault && <p class="bad-text" role="alert">Could not load the hops: {fault}</p>}
      {shown && !path && !fault && <p class="soft" role="status">Loading hops…</p>}
      {path && inPackets(path) && <OneWays path={path} nodes={nodes} losses={choice.by === "loss" ? edges : undefined} />}
      {path && !inPackets(path) && <Hops hops={path.hops} naming={naming} reached={path.reached} edges={edges} what={choice.by === "loss" ? "Link loss" : "Link"} />}
      {path && choice.at !== undefined && <Then key={`${path.address} ${path.protocol} ${choice.at}`} path={path} at={choice.at} naming={naming} />}
    </section>
  );
}

function Measured({ source, destination }: { source: string; destination: string }) {
  const figures = minute.value?.get(pairName(source, destination));
  const none = minuteFault.value ? `No live figures: ${minuteFault.value}` : "No measurements of this pair in the last minute.";
  if (!figures || figures.expected === 0) return <p class="small soft">{none}</p>;
  return (
    <dl class="path-facts">
      <div><dt>One-way delay, median</dt><dd>{duration(figures.median)}</dd></div>
      <div><dt>Loss, last minute</dt><dd>{share(lossOf(figures.lost, figures.expected))} <span class="small faint">{count(figures.lost)} of {count(figures.expected)}</span></dd></div>
    </dl>
  );
}

function Which({ all, shown }: { all: PathEntry[]; shown: PathEntry }) {
  return (
    <div class="field">
      <label for="path-which">Measured to</label>
      <select id="path-which" value={String(all.indexOf(shown))} onChange={(e) => {
        const path = all[Number(e.currentTarget.value)];
        if (path) choosePath(path);
      }}>
        {all.map((p, i) => <option key={`${p.address} ${p.protocol}`} value={String(i)}>{p.address}, {methodOf(p)}{p.reached ? "" : ", not reached"}</option>)}
      </select>
    </div>
  );
}

function Facts({ entry, path }: { entry: PathEntry; path: Path | undefined }) {
  return (
    <dl class="path-facts">
      <div><dt>State</dt><dd><span class={`badge ${entry.reached ? "good" : "bad"}`}>{entry.reached ? "reached" : "not reached"}</span></dd></div>
      <div><dt>{inPackets(entry) ? "Last measured" : "Last traced"}</dt><dd title={moment(entry.time)}>{ago(entry.time)}</dd></div>
      <div><dt>Route unchanged since</dt><dd>{moment(entry.changed)}</dd></div>
      <div><dt>Address</dt><dd><code>{entry.address}</code> <span class="small faint">{methodOf(entry)}</span></dd></div>
      {path && inPackets(path) && <div><dt>Packets in {duration(Number(path.intervalNs))}</dt><dd>{count(path.oneWay?.packets ?? 0n)}</dd></div>}
    </dl>
  );
}

function Missing({ sites, known, others, same }: { sites: boolean; known: boolean; others: PathEntry[]; same: boolean }) {
  if (same) return <p class="soft">Both ends are the same host. Select two hosts.</p>;
  if (!known) return <p class="soft">{limited.value ? "At least one of these hosts is not visible with this token." : "At least one of these hosts is unknown."}</p>;
  if (others.length > 0) return <p class="soft">This pair has no path in the shown address family. Select another family under “Paths” above.</p>;
  if (sites) {
    return (
      <p class="soft">
        The graph of sites has no path of this pair: it is within a site, or a path of other hosts with the same routers was traced later.{" "}
        <button type="button" class="quiet" onClick={() => refine({ view: undefined, open: undefined })}>Show hosts</button>
      </p>
    );
  }
  return <p class="soft">This path was not traced in the last 24 hours. {operates.value ? "Trace it now, or start a session between these hosts: sessions trace their paths once a minute." : limited.value ? "Paths of pairs that this token does not see are not shown." : "Sessions trace their paths once a minute; an operator can start one."}</p>;
}

function TraceNow({ choice, path }: { choice: Choice; path?: PathEntry | undefined }) {
  const [state, setState] = useState<{ busy?: boolean; text?: string; fault?: string }>({});
  const [abort] = useState(() => new AbortController());
  useEffect(() => () => abort.abort(), []);
  const trace = async (): Promise<void> => {
    setState({ busy: true });
    try {
      const answer = await topologyClient.trace({ source: choice.source, destination: choice.destination, address: path?.address, protocol: path && inPackets(path) ? undefined : path?.protocol }, { signal: abort.signal });
      const reached = answer.paths.filter((p) => p.reached).length;
      setState({ text: `Traced ${answer.paths.length === 1 ? "one path" : `${answer.paths.length} paths`}; ${reached === answer.paths.length ? "the far end replied" : `the far end replied on ${reached}`}.` });
      await retrace();
    } catch (e) {
      if (!abort.signal.aborted) setState({ fault: sentence(e) });
    }
  };
  return (
    <div class="row trace-now">
      <button type="button" disabled={state.busy} onClick={() => void trace()}>{state.busy ? "Tracing…" : "Trace now"}</button>
      <span class="small soft" role="status">{state.busy ? "Probing hop by hop; hops without reply take a few seconds." : state.text}</span>
      {state.fault && <span class="small bad-text" role="alert">{state.fault}</span>}
    </div>
  );
}
