// The paths between hosts as a graph, the path of a pair, and path changes.
import { useEffect, useMemo, useState } from "preact/hooks";
import { Graph, type Places } from "../chart/graph.tsx";
import { limited, operates } from "../data/account.ts";
import { agents, hostNames } from "../data/agents.ts";
import { lossesOf, type Losses } from "../data/bound.ts";
import { followMinute, minute, minuteFault } from "../data/minute.ts";
import { useResource } from "../data/resource.ts";
import { route } from "../data/route.ts";
import { sessions } from "../data/sessions.ts";
import { familyOf, isEnd, nodeName, scopeTo, stepsOf, topology, type Graph as PathGraph, type PathEntry, type Topology } from "../data/topology.ts";
import type { Node } from "../gen/topology_pb.ts";
import { Notice } from "../part/notice.tsx";
import { useTitle } from "../part/title.ts";
import "../style/topology.css";
import { choiceOf, choosePair, chosenPaths, openSites, type Choice } from "./topology/choice.ts";
import { useHops } from "./topology/detail.ts";
import { figureOf, type Figure } from "./topology/grade.ts";
import { Legend } from "./topology/legend.tsx";
import { OpenSites } from "./topology/open-sites.tsx";
import { PathPanel } from "./topology/path.tsx";
import { Picker } from "./topology/picker.tsx";
import { pictureOf } from "./topology/picture.ts";
import { usePrepared, type Prepared } from "./topology/prepare.ts";
import { Strip } from "./topology/strip.tsx";
import { PathTable } from "./topology/table.tsx";

// Positions are kept when the view is left, so that nodes stay in place.
const kept = new Map<string, Places>();

function placesOf(key: string): Places {
  let places = kept.get(key);
  if (!places) kept.set(key, (places = { at: new Map(), moved: false }));
  return places;
}

/** TopologyView shows the paths between hosts. */
export function TopologyView() {
  useTitle("Topology");
  useResource(topology);
  useResource(agents);
  const choice = choiceOf(route.value);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const drawn = usePrepared(topology.value.value, choice, open);
  useEffect(() => scopeTo(choice), [choice.session, choice.open?.join()]);
  useEffect(() => followMinute(choice.session), [choice.session]);
  const fault = topology.fault.value;
  return (
    <div class="stack topology">
      <h1>Topology</h1>
      {fault && <Notice title="Could not load paths" level="error">{fault}</Notice>}
      {drawn ? <Paths {...drawn} choice={choice} open={open} setOpen={setOpen} /> : !fault && <p class="soft" role="status">Loading…</p>}
    </div>
  );
}

interface PathsProps extends Prepared {
  choice: Choice;
  /** Expanded groups. */
  open: ReadonlySet<string>;
  setOpen: (open: ReadonlySet<string>) => void;
}

function Paths({ answer, family, graph, whole, choice, open, setOpen }: PathsProps) {
  const hosts = hostNames() ?? [];
  const { all, shown } = chosenPaths(choice, answer.paths, family);
  const detail = useHops(choice, answer, shown);
  const live = choice.by === "loss" ? minute.value : undefined;
  const losses = useMemo(() => (choice.by === "loss" ? lossesOf(graph.paths, graph.pairs, live ?? new Map(), Date.now() - 60_000) : undefined), [choice.by, live, graph]);
  const picture = useMemo(
    () => pictureOf(whole, { losses, path: shown, sites: choice.open !== undefined, ends: [choice.source, choice.destination].filter(Boolean).map((n) => `agent:${n}`) }),
    [whole, losses, shown, choice.source, choice.destination, choice.open === undefined],
  );
  const naming = useMemo(() => {
    const names = new Map(answer.nodes.flatMap((n) => (n.agent || n.name ? n.addresses.map((a) => [a, n.agent ? { host: n.agent } : { dns: n.name }] as const) : [])));
    return (address: string) => names.get(address);
  }, [answer]);
  const nodes = useMemo(() => {
    const byId = new Map<string, Node>([...answer.nodes, ...detail.nodes].map((n) => [n.id, n]));
    return (id: string) => {
      const node = byId.get(id);
      return { name: node ? nodeName(node) : id, agent: node?.kind === "agent" };
    };
  }, [answer, detail.nodes]);
  const numbers = useMemo(() => ({ "4": answer.paths.filter((p) => familyOf(p) === "4").length, "6": answer.paths.filter((p) => familyOf(p) === "6").length }), [answer]);
  const sites = useMemo(() => answer.nodes.filter((n) => n.kind === "site").length, [answer]);
  const places = placesOf(`${choice.session} ${family} ${whole.groups.size > 0} ${sites > 0}`);

  const pressed = (id: string): void => {
    if (id.startsWith("group:")) setOpen(new Set([...open, id]));
    else if (id.startsWith("site:")) openSites([...(choice.open ?? []), id.slice("site:".length)]);
    else if (id.startsWith("agent:")) pick(choice, id.slice("agent:".length));
  };
  if (answer.paths.length === 0) return <Empty hosts={hosts.length} session={choice.session} />;
  return (
    <>
      <Picker choice={choice} hosts={hosts} family={family} counts={numbers} sites={answer.nodes.some((n) => n.site !== "")} />
      <div class="topology-parts">
        <section class="panel graph-panel" aria-label="Graph of paths">
          {choice.by === "loss" && minuteFault.value && <p class="small bad-text" role="alert">No live loss figures: {minuteFault.value}</p>}
          <Graph title={`Graph of ${graph.paths.length} paths between ${choice.open ? endsOf(answer) : `${hosts.length} hosts`}`} picture={picture} shape={whole.shape} places={places} dot={pressed}
            nothing={() => (choice.source || choice.destination ? choosePair("", "") : undefined)} />
          {open.size > 0 && <button class="quiet" type="button" onClick={() => setOpen(new Set())}>Collapse groups</button>}
          {choice.open && <OpenSites open={choice.open} nodes={answer.nodes} />}
          <Legend by={choice.by} groups={whole.groups.size > 0} sites={sites > 0} />
        </section>
        <PathPanel choice={choice} all={all} shown={shown} path={detail.path} fault={detail.fault} naming={naming} nodes={nodes} hosts={hosts} edges={shown ? edgesOf(graph, shown, losses) : []} />
      </div>
      <Strip choice={choice} />
      <PathTable graph={graph} shown={shown} sites={choice.open !== undefined} />
    </>
  );
}

/** The ends of the paths in words. */
function endsOf(answer: Topology): string {
  const ends = answer.nodes.filter(isEnd);
  const sites = ends.filter((n) => n.kind === "site").length;
  const hosts = ends.length - sites;
  return hosts === 0 ? `${sites} sites` : `${sites} sites and ${hosts} hosts`;
}

/** The figures of a path's edges. */
function edgesOf(graph: PathGraph, path: PathEntry, losses: Losses | undefined): (Figure | undefined)[] {
  const nodes = stepsOf(path).map((n) => graph.all[n]?.id ?? "");
  const wanted = new Map(nodes.slice(1).map((to, i) => [`${nodes[i]} ${to}`, i]));
  const figures: (Figure | undefined)[] = nodes.slice(1).map(() => undefined);
  for (const { there, back } of graph.links) {
    for (const way of back ? [there, back] : [there]) {
      const place = wanted.get(`${way.from} ${way.to}`);
      if (place !== undefined) figures[place] = figureOf(way, losses);
    }
  }
  return figures;
}

/** The first click selects the source, the second the destination, the third starts over. */
function pick({ source, destination }: Choice, host: string): void {
  if (source && !destination && source !== host) choosePair(source, host);
  else if (!source && destination && destination !== host) choosePair(host, destination);
  else choosePair(host, "");
}

function Empty({ hosts, session }: { hosts: number; session: string }) {
  useResource(sessions);
  const running = (sessions.value.value ?? []).filter((s) => ["running", "degraded", "starting"].includes(s.state));
  const create = operates.value && <a class="button main" href="#/sessions/new">New session</a>;
  if (limited.value) {
    return <Notice title="No paths are visible" action={session && <a class="button" href="#/topology">Show all paths</a>}>No path between the hosts that this token sees was traced in the last 24 hours. Running sessions trace their paths once a minute, unless tracing is disabled.</Notice>;
  }
  if (hosts < 2) {
    return <Notice title={hosts === 0 ? "No host has joined yet" : "Only one host has joined"}>Paths are traced between hosts that run <code>pillion-agent</code>. At least two hosts have to join.</Notice>;
  }
  if (session) {
    return <Notice title={`No paths of session ${session} in the last 24 hours`} action={<a class="button" href="#/topology">Show all paths</a>}>A running session traces its paths once a minute by default, unless tracing is disabled.</Notice>;
  }
  if (running.length === 0) {
    return <Notice title="No paths in the last 24 hours" action={create}>Running sessions trace the paths between their hosts, by default once a minute. No session is running{operates.value ? "." : "; an operator can start one."}</Notice>;
  }
  return <Notice title="No paths yet" action={create}>{running.length === 1 ? "One session runs" : `${running.length} sessions run`}. The first traces appear within a minute, unless tracing is disabled.</Notice>;
}
