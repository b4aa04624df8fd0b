// One host: what it is, what it does, what it costs, and whether it is fit to measure.
import "../style/overview.css";
import "../style/agent.css";
import { useEffect } from "preact/hooks";
import type { Agent } from "../gen/agent_pb.ts";
import { agents } from "../data/agents.ts";
import { ago, bytes, count, duration, moment } from "../data/quantity.ts";
import { route } from "../data/route.ts";
import { useResource } from "../data/resource.ts";
import { millis } from "../data/time.ts";
import { Badge } from "../part/badge.tsx";
import { Notice } from "../part/notice.tsx";
import { ChecksPanel } from "./agent/checks.tsx";
import { CostPanel } from "./agent/cost.tsx";
import { Fact, Facts } from "./agent/fact.tsx";
import { LabelsPanel } from "./agent/labels.tsx";
import { LeavePanel } from "./agent/leave.tsx";
import { TasksPanel } from "./agent/tasks.tsx";
import { clockQuality } from "./overview/clock.ts";

/** AgentView shows the host that the address names. */
export function AgentView() {
  const known = useResource(agents);
  const name = route.value.words[1] ?? "";
  useEffect(() => {
    document.title = `${name} · Pillion`;
    return () => void (document.title = "Pillion");
  }, [name]);
  const agent = known.value.value?.find((a) => a.name === name);
  const back = <a class="button" href="#/">To the overview</a>;
  if (agent) return <Host agent={agent} fault={known.fault.value} />;
  if (known.value.value) return <Notice title={`There is no host “${name}”`} action={back}>It has not joined this server, or was deleted. Its rows, if it had any, are still in the archive.</Notice>;
  if (known.fault.value) return <Notice title="The host is not known" level="error" action={back}>{known.fault.value}</Notice>;
  return <Notice title="Asking the server">The host is on its way.</Notice>;
}

function Host({ agent, fault }: { agent: Agent; fault: string | undefined }) {
  const seen = millis(agent.seen);
  return (
    <div class="overview">
      <header class="row host-head">
        <h1>{agent.name}</h1>
        <Badge state={agent.state} />
        <span class="soft">{seen ? `heard ${ago(seen)}` : "not heard since the server started"}</span>
      </header>
      {fault && <p class="fault" role="alert">{fault} What is shown is from before.</p>}
      {agent.state === "away" && <Notice level="warning" title="This host is away">Look whether <code>pillion-agent</code> runs on it and whether it reaches port 8471 of this server. What it holds in its spool comes when it is back; until then its traffic goes on, unmarked.</Notice>}
      <div class="host-grid">
        <ProgramPanel agent={agent} />
        <ClockPanel agent={agent} />
        <SpoolPanel agent={agent} />
        <LabelsPanel agent={agent} />
        <InterfacesPanel agent={agent} />
      </div>
      <TasksPanel tasks={agent.tasks} />
      <CostPanel name={agent.name} />
      <ChecksPanel agent={agent} />
      <LeavePanel agent={agent} />
    </div>
  );
}

function ProgramPanel({ agent }: { agent: Agent }) {
  const [started, enrolled, ends] = [millis(agent.started), millis(agent.enrolled), millis(agent.certificateExpires)];
  return (
    <Facts title="Program">
      <Fact name="Version">{agent.version || "unknown"}</Fact>
      <Fact name="Kernel">{agent.kernel || "unknown"}</Fact>
      <Fact name="Runs since">{started ? moment(started) : "unknown"}</Fact>
      <Fact name="Joined">{enrolled ? moment(enrolled) : "unknown"}</Fact>
      <Fact name="Certificate ends" note={ends && ends < Date.now() ? "It has ended: the host has to join again." : "The host renews it before."} tone={ends && ends < Date.now() ? "bad" : undefined}>{ends ? moment(ends) : "unknown"}</Fact>
    </Facts>
  );
}

function ClockPanel({ agent }: { agent: Agent }) {
  const { clock } = agent;
  if (!clock) return <Facts title="Clock"><p class="soft">The host has not told of its clock.</p></Facts>;
  const { word, bound, tone } = clockQuality(agent);
  return (
    <Facts title="Clock">
      <Fact name="Quality" tone={tone}>{word}</Fact>
      <Fact name="Error at most">{bound}</Fact>
      <Fact name="Last offset">{duration(Number(clock.offsetNs))}</Fact>
      <Fact name="Kept by">{clock.by || "nothing"}</Fact>
      {!clock.synchronised && <p class="soft small">Nothing disciplines this clock. Delays between hosts that do not share a clock mean little; use chrony or PTP.</p>}
    </Facts>
  );
}

function SpoolPanel({ agent: { spool } }: { agent: Agent }) {
  if (!spool) return <Facts title="Spool"><p class="soft">The host has not told of its spool.</p></Facts>;
  const [held, limit] = [Number(spool.bytes), Number(spool.limitBytes)];
  return (
    <Facts title="Spool">
      <Fact name="Waits for the archive">{spool.batches === 0n ? "nothing" : `${count(spool.batches)} batches, ${bytes(held)}`}</Fact>
      <Fact name="Room">{limit > 0 ? bytes(limit) : "unknown"}</Fact>
      <Fact name="Rows stored">{count(spool.sentRows)}</Fact>
      <Fact name="Rows dropped" tone={spool.droppedRows > 0n ? "bad" : undefined} note={spool.droppedRows > 0n ? "The spool was full: the oldest went first." : undefined}>{count(spool.droppedRows)}</Fact>
      <Fact name="Batches refused" tone={spool.rejectedBatches > 0n ? "bad" : undefined}>{count(spool.rejectedBatches)}</Fact>
    </Facts>
  );
}

function InterfacesPanel({ agent }: { agent: Agent }) {
  return (
    <section class="panel host-wide" aria-labelledby="interfaces-title">
      <header><h2 id="interfaces-title">Interfaces</h2></header>
      {agent.interfaces.length === 0 ? <p class="soft">The host has not told of its interfaces.</p> : (
        <div class="scroll-x">
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
