// One host: its agent, clock, interfaces, tasks, load and checks.
import "../style/overview.css";
import "../style/agent.css";
import type { Agent } from "../gen/agent_pb.ts";
import { limited, who } from "../data/account.ts";
import { agents, ends } from "../data/agents.ts";
import { ago, bytes, count, duration, moment } from "../data/quantity.ts";
import { route } from "../data/route.ts";
import { useResource } from "../data/resource.ts";
import { millis } from "../data/time.ts";
import { Badge } from "../part/badge.tsx";
import { Notice } from "../part/notice.tsx";
import { useTitle } from "../part/title.ts";
import { ChecksPanel } from "./agent/checks.tsx";
import { CostPanel } from "./agent/cost.tsx";
import { Fact, Facts } from "./agent/fact.tsx";
import { AddressesPanel } from "./agent/addresses.tsx";
import { LabelsPanel } from "./agent/labels.tsx";
import { LeavePanel } from "./agent/leave.tsx";
import { TasksPanel } from "./agent/tasks.tsx";
import { PointPanels } from "./points.tsx";
import { clockQuality } from "./overview/clock.ts";

/** AgentView shows the host in the address. */
export function AgentView() {
  const known = useResource(agents);
  const name = route.value.words[1] ?? "";
  useTitle(name);
  const agent = known.value.value?.find((a) => a.name === name);
  const back = <a class="button" href="#/">Go to the overview</a>;
  if (agent) return <Host agent={agent} fault={known.fault.value} />;
  if (ends.value.includes(name)) return <Notice title={`Only pairs of host “${name}” are visible`} action={back}>The token {who.value?.name} sees nothing else about this host.</Notice>;
  if (known.value.value && limited.value) return <Notice title={`Host “${name}” is not visible`} action={back}>The token {who.value?.name} sees only {who.value?.scope.join(", ")}.</Notice>;
  if (known.value.value) return <Notice title={`There is no host “${name}”`} action={back}>It has not joined this server, or it was deleted. Any rows it delivered are still in the archive.</Notice>;
  if (known.fault.value) return <Notice title="Could not load the host" level="error" action={back}>{known.fault.value}</Notice>;
  return <Notice title="Loading…" />;
}

function Host({ agent, fault }: { agent: Agent; fault: string | undefined }) {
  const seen = millis(agent.seen);
  return (
    <div class="overview">
      <header class="row host-head">
        <h1>{agent.name}</h1>
        <Badge state={agent.state} />
        <span class="soft">{seen ? `last seen ${ago(seen)}` : "not seen since the server started"}</span>
      </header>
      {fault && <p class="fault" role="alert">{fault} The data below may be out of date.</p>}
      {agent.state === "away" && <Notice level="warning" title="This host is away">Check that <code>pillion-agent</code> is running on it and can reach port 8471 of this server. The agent delivers its spooled rows when it reconnects. Until then its traffic continues unmarked.</Notice>}
      {agent.state === "revoked" && <Notice level="warning" title="This host is revoked">The server rejects its connections, and no session selects it. Its rows are kept. It can join again only after it has been deleted.</Notice>}
      <div class="host-grid">
        <ProgramPanel agent={agent} />
        <ClockPanel agent={agent} />
        <SpoolPanel agent={agent} />
      </div>
      <div class="host-grid two">
        <LabelsPanel agent={agent} />
        <AddressesPanel agent={agent} />
        <InterfacesPanel agent={agent} />
      </div>
      <TasksPanel tasks={agent.tasks} />
      <PointPanels names={agent.tasks.map((t) => t.role)} where={{ agent: agent.name }} />
      <CostPanel name={agent.name} />
      <ChecksPanel agent={agent} />
      <LeavePanel agent={agent} />
    </div>
  );
}

function ProgramPanel({ agent }: { agent: Agent }) {
  const [started, enrolled, ends] = [millis(agent.started), millis(agent.enrolled), millis(agent.certificateExpires)];
  const certificate = agent.state === "revoked" ? { note: "Revoked: the server rejects it.", tone: "bad" }
    : ends && ends < Date.now() ? { note: "Expired: the host has to join again.", tone: "bad" } : { note: "The agent renews it before it expires." };
  return (
    <Facts title="Agent">
      <Fact name="Version">{agent.version || "unknown"}</Fact>
      <Fact name="Kernel">{agent.kernel || "unknown"}</Fact>
      <Fact name="Started">{started ? moment(started) : "unknown"}</Fact>
      <Fact name="Joined">{enrolled ? moment(enrolled) : "unknown"}</Fact>
      <Fact name="Certificate expires" {...certificate}>{ends ? moment(ends) : "unknown"}</Fact>
    </Facts>
  );
}

function ClockPanel({ agent }: { agent: Agent }) {
  const { clock } = agent;
  if (!clock) return <Facts title="Clock"><p class="soft">The host has not reported its clock.</p></Facts>;
  const { word, bound, tone } = clockQuality(agent);
  return (
    <Facts title="Clock">
      <Fact name="Quality" tone={tone}>{word}</Fact>
      <Fact name="Maximum error">{bound}</Fact>
      <Fact name="Last offset">{duration(Number(clock.offsetNs))}</Fact>
      <Fact name={clock.synchronised ? "Synchronised by" : "Reported by"}>{clock.by || "unknown"}</Fact>
      {!clock.synchronised && <p class="soft small">This clock is unsynchronised. One-way delays to and from this host are unreliable; run chrony or PTP.</p>}
    </Facts>
  );
}

function SpoolPanel({ agent: { spool } }: { agent: Agent }) {
  if (!spool) return <Facts title="Spool"><p class="soft">The host has not reported its spool.</p></Facts>;
  const [held, limit] = [Number(spool.bytes), Number(spool.limitBytes)];
  return (
    <Facts title="Spool">
      <Fact name="Waiting for the archive">{spool.batches === 0n ? "nothing" : `${count(spool.batches)} batches, ${bytes(held)}`}</Fact>
      <Fact name="Capacity">{limit > 0 ? bytes(limit) : "unknown"}</Fact>
      <Fact name="Rows stored">{count(spool.sentRows)}</Fact>
      <Fact name="Rows dropped" tone={spool.droppedRows > 0n ? "bad" : undefined} note={spool.droppedRows > 0n ? "The spool was full: the oldest rows were dropped." : undefined}>{count(spool.droppedRows)}</Fact>
      <Fact name="Batches rejected" tone={spool.rejectedBatches > 0n ? "bad" : undefined}>{count(spool.rejectedBatches)}</Fact>
    </Facts>
  );
}

function InterfacesPanel({ agent }: { agent: Agent }) {
  return (
    <section class="panel host-wide" aria-labelledby="interfaces-title">
      <header><h2 id="interfaces-title">Interfaces</h2></header>
      {agent.interfaces.length === 0 ? <p class="soft">The host has not reported its interfaces.</p> : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of interfaces">
          <table>
            <thead><tr><th scope="col">Name</th><th scope="col">State</th><th scope="col" class="number">MTU</th><th scope="col">Addresses</th></tr></thead>
            <tbody>
              {agent.interfaces.map((i) => (
                <tr key={i.name}>
                  <td>{i.name}</td>
                  <td><span class={`tone ${i.up ? "good" : "idle"}`}>{i.up ? "up" : "down"}</span></td>
                  <td class="number">{count(i.mtu)} B</td>
                  <td class="addresses">{i.addresses.length > 0 ? i.addresses.map((a) => <code key={a}>{a}</code>) : "none"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
