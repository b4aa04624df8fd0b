// Health of the server.
import { build, health } from "../../data/health.ts";
import { ago, moment } from "../../data/quantity.ts";
import { useResource } from "../../data/resource.ts";
import { millis } from "../../data/time.ts";
import { Badge } from "../../part/badge.tsx";

const names: Record<string, string> = { archive: "Archive", bus: "Agent bus", disk: "Disk", control: "Control", scheduler: "Scheduler", agents: "Agents" };

/** ServerPanel shows the parts of the server and its version. */
export function ServerPanel() {
  const state = useResource(health);
  const { value: made } = useResource(build);
  const parts = state.value.value?.parts;
  const started = millis(made.value?.started);
  return (
    <section class="panel server-panel" aria-labelledby="server-title">
      <header><h2 id="server-title">Server</h2>{parts && <Badge state={state.value.value?.status === "ok" ? "ok" : "failing"} />}</header>
      {state.fault.value && <p class="field-fault">{state.fault.value}</p>}
      {!parts && !state.fault.value && <p class="soft">Loading…</p>}
      {parts && (
        <ul class="server-parts">
          {parts.map((p) => <li key={p.name}><span>{names[p.name] ?? p.name}</span><Badge state={p.ok ? "ok" : "failing"} /><span class="soft">{p.detail}</span></li>)}
        </ul>
      )}
      {made.value && (
        <p class="small soft server-build">
          Version {made.value.version || "unknown"}{made.value.revision && <>, commit <code>{made.value.revision.slice(0, 12)}</code></>}, {made.value.go}
          {started !== undefined && <>, started <time dateTime={new Date(started).toISOString()} title={moment(started)}>{ago(started)}</time></>}
        </p>
      )}
    </section>
  );
}
