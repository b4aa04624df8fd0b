// Version and health of the server.
import { build, health } from "../../data/health.ts";
import { ago, moment } from "../../data/quantity.ts";
import { useResource } from "../../data/resource.ts";
import { millis } from "../../data/time.ts";
import { Badge } from "../../part/badge.tsx";
import { Fact, Facts } from "../agent/fact.tsx";
import "../../style/agent.css";
import "../../style/events.css";

const names: Record<string, string> = { archive: "Archive", bus: "Agent bus", disk: "Disk", control: "Control", scheduler: "Scheduler", agents: "Agents" };

/** BuildPanel shows what runs, and since when. */
export function BuildPanel() {
  const { value, fault } = useResource(build);
  const made = value.value;
  const started = millis(made?.started);
  return (
    <Facts title="Version">
      {!made && <p class={fault.value ? "field-fault" : "soft"}>{fault.value ?? "Loading…"}</p>}
      {made && <Fact name="Version">{made.version || "unknown"}</Fact>}
      {made && <Fact name="Commit">{made.revision ? <code>{made.revision}</code> : "unknown"}</Fact>}
      {made && <Fact name="Built with">{made.go || "unknown"}</Fact>}
      {started !== undefined && <Fact name="Started"><time dateTime={new Date(started).toISOString()}>{moment(started)}, {ago(started)}</time></Fact>}
    </Facts>
  );
}

/** HealthPanel shows the parts of the server. */
export function HealthPanel() {
  const state = useResource(health);
  const parts = state.value.value?.parts;
  return (
    <section class="panel server-panel" aria-labelledby="server-title">
      <header><h2 id="server-title">Health</h2>{parts && <Badge state={state.value.value?.status === "ok" ? "ok" : "failing"} />}</header>
      {state.fault.value && <p class="field-fault">{state.fault.value}</p>}
      {!parts && !state.fault.value && <p class="soft">Loading…</p>}
      {parts && (
        <ul class="server-parts">
          {parts.map((p) => <li key={p.name}><span>{names[p.name] ?? p.name}</span><Badge state={p.ok ? "ok" : "failing"} /><span class="soft">{p.detail}</span></li>)}
        </ul>
      )}
    </section>
  );
}
