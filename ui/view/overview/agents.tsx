// All hosts in a table with search, sorting and pages.
import type { ComponentChildren } from "preact";
import type { Agent } from "../../gen/agent_pb.ts";
import { ends } from "../../data/agents.ts";
import { ago, bytes, count } from "../../data/quantity.ts";
import { labelText, waiting } from "../../data/labels.ts";
import { href, refine, route } from "../../data/route.ts";
import { millis } from "../../data/time.ts";
import { Badge } from "../../part/badge.tsx";
import { Icon } from "../../part/icon.tsx";
import { clockQuality } from "./clock.ts";
import { byName, fits } from "./hosts.ts";

const perPage = 25;
const endsMost = 50; // names in a sentence
const rank: Record<string, number> = { away: 0, revoked: 1, connected: 2 };

/** Sort orders by their name in the address. */
export const orders: Record<string, (a: Agent, b: Agent) => number> = {
  name: (a, b) => byName(a.name, b.name),
  state: (a, b) => (rank[a.state] ?? 3) - (rank[b.state] ?? 3),
  heard: (a, b) => (millis(b.seen) ?? 0) - (millis(a.seen) ?? 0),
  version: (a, b) => byName(a.version, b.version),
  kernel: (a, b) => byName(a.kernel, b.kernel),
  clock: (a, b) => clockQuality(b).error - clockQuality(a).error || 0,
  spool: (a, b) => Number((b.spool?.bytes ?? 0n) - (a.spool?.bytes ?? 0n)) || Number((b.spool?.droppedRows ?? 0n) - (a.spool?.droppedRows ?? 0n)),
};

/** Filters and sorts agents; a minus before the order's name reverses it. */
export function listed(agents: readonly Agent[], find: string, order: string): Agent[] {
  const descending = order.startsWith("-");
  const compare = orders[descending ? order.slice(1) : order] ?? orders.name ?? (() => 0);
  return agents
    .filter((a) => fits(a.name, { ...a.labels, ...(waiting(a) > 0 ? { "to approve": "" } : {}), [a.state]: "", [a.version]: "", [a.kernel]: "" }, find))
    .sort((a, b) => (descending ? -1 : 1) * compare(a, b) || byName(a.name, b.name));
}

/** AgentsPanel lists all hosts. */
export function AgentsPanel({ agents }: { agents: readonly Agent[] }) {
  const { query } = route.value;
  const find = query.get("find") ?? "";
  const order = query.get("order") ?? "name";
  const all = listed(agents, find, order);
  const pages = Math.max(1, Math.ceil(all.length / perPage));
  const page = Math.min(pages, Math.max(1, Number(query.get("page")) || 1));
  return (
    <section class="panel" aria-labelledby="agents-title">
      <header class="spread">
        <h2 id="agents-title">Hosts <span class="soft">{agents.length + ends.value.length}</span></h2>
        {agents.length > 4 && <input type="search" aria-label="Search hosts" placeholder="Search name, label, state" value={find} onInput={(e) => refine({ find: e.currentTarget.value || undefined, page: undefined })} />}
      </header>
      {agents.length === 0 ? null : all.length === 0
        ? <p class="soft">No host matches “{find}”. <button type="button" class="quiet" onClick={() => refine({ find: undefined })}>Clear search</button></p>
        : (
          <div class="scroll-x">
            <table class="cards agents">
              <thead>
                <tr>
                  <Head name="name" order={order}>Host</Head><Head name="state" order={order}>State</Head><Head name="heard" order={order}>Last seen</Head>
                  <Head name="clock" order={order}>Clock</Head><th scope="col">Interfaces</th><Head name="spool" order={order}>Spool</Head>
                  <Head name="version" order={order}>Version</Head><Head name="kernel" order={order}>Kernel</Head>
                </tr>
              </thead>
              <tbody>{all.slice((page - 1) * perPage, page * perPage).map((a) => <AgentRow key={a.name} agent={a} />)}</tbody>
            </table>
          </div>
        )}
      {pages > 1 && <Pages page={page} pages={pages} found={all.length} />}
      {ends.value.length > 0 && <Ends names={ends.value} first={agents.length === 0} />}
    </section>
  );
}

/** Ends names hosts of which a limited token sees only pairs. */
function Ends({ names, first }: { names: readonly string[]; first: boolean }) {
  return (
    <p class={first ? "" : "after"}>
      <b>{names.slice(0, endsMost).join(", ")}</b>{names.length > endsMost && ` and ${names.length - endsMost} more`}
      <span class="soft">: {names.length === 1 ? "an end" : "ends"} of pairs that the token sees. Nothing else about {names.length === 1 ? "this host" : "these hosts"} is visible with it.</span>
    </p>
  );
}

function Head({ name, order, children }: { name: string; order: string; children: ComponentChildren }) {
  const up = order === name;
  const down = order === `-${name}`;
  return (
    <th scope="col" aria-sort={up ? "ascending" : down ? "descending" : undefined}>
      <button type="button" class="quiet sort" onClick={() => refine({ order: up ? `-${name}` : name === "name" ? undefined : name, page: undefined })}>{children}{(up || down) && <Icon name={up ? "down" : "up"} />}</button>
    </th>
  );
}

function Pages({ page, pages, found }: { page: number; pages: number; found: number }) {
  const to = (p: number) => refine({ page: p > 1 ? p : undefined });
  return (
    <nav class="row pages" aria-label="Pages of hosts">
      <button type="button" disabled={page === 1} onClick={() => to(page - 1)}><Icon name="left" />Previous</button>
      <span class="soft" aria-live="polite">{(page - 1) * perPage + 1} to {Math.min(found, page * perPage)} of {found}</span>
      <button type="button" disabled={page === pages} onClick={() => to(page + 1)}>Next<Icon name="right" /></button>
    </nav>
  );
}

function AgentRow({ agent }: { agent: Agent }) {
  const seen = millis(agent.seen);
  const up = agent.interfaces.filter((i) => i.up).length;
  return (
    <tr class={agent.state === "connected" ? "" : "dim"}>
      <td data-name=""><a href={href(["agent", agent.name])}>{agent.name}</a>{waiting(agent) > 0 && <a class="badge warning to-approve" href={href(["agent", agent.name])} title={`Labels that wait for approval: ${Object.entries(agent.claimedLabels).map(([key, value]) => labelText({ key, value })).join(", ")}`}>{waiting(agent)} to approve</a>}<Labels labels={agent.labels} /></td>
      <td data-name="State"><Badge state={agent.state} /></td>
      <td data-name="Last seen" class="even">{seen ? ago(seen) : "not since the server start"}</td>
      <td data-name="Clock"><ClockWords agent={agent} /></td>
      <td data-name="Interfaces" class="even" title={agent.interfaces.map((i) => `${i.name} ${i.up ? "up" : "down"}`).join(", ")}>{agent.interfaces.length > 0 ? `${up} of ${agent.interfaces.length} up` : "–"}</td>
      <td data-name="Spool"><SpoolWords agent={agent} /></td>
      <td data-name="Version" class="wrap">{agent.version || "–"}</td>
      <td data-name="Kernel" class="wrap">{agent.kernel || "–"}</td>
    </tr>
  );
}

/** Labels of a host. */
export function Labels({ labels }: { labels: Record<string, string> }) {
  const all = Object.entries(labels).sort(([a], [b]) => byName(a, b));
  if (all.length === 0) return null;
  return <span class="labels">{all.map(([key, value]) => <span key={key} class="label">{value ? `${key}=${value}` : key}</span>)}</span>;
}

/** ClockWords rates a clock and shows the bound of its error. */
export function ClockWords({ agent }: { agent: Agent }) {
  const { word, bound, tone } = clockQuality(agent);
  const by = agent.clock?.by;
  return <span class={`tone ${tone}`} title={by && `reported by ${by}`}>{word} <span class="even soft">{bound}</span></span>;
}

function SpoolWords({ agent: { spool } }: { agent: Agent }) {
  if (!spool) return <span class="faint">–</span>;
  const refused = Number(spool.rejectedBatches);
  return (
    <span class="even">
      {spool.batches > 0n ? `${bytes(Number(spool.bytes))} waiting` : <span class="faint">empty</span>}
      {spool.droppedRows > 0n && <span class="tone bad">{count(spool.droppedRows)} rows dropped</span>}
      {refused > 0 && <span class="tone bad">{refused} batches rejected</span>}
    </span>
  );
}
