// The overview of all hosts and running sessions.
import "../style/overview.css";
import { agents, ends } from "../data/agents.ts";
import { events } from "../data/events.ts";
import { usePairs } from "../data/pairs.ts";
import { route } from "../data/route.ts";
import { sessions } from "../data/sessions.ts";
import { useResource } from "../data/resource.ts";
import { bySite } from "../part/mode.tsx";
import { Notice } from "../part/notice.tsx";
import { useTitle } from "../part/title.ts";
import { AgentsPanel } from "./overview/agents.tsx";
import { AllAway, NoAgents } from "./overview/empty.tsx";
import { MatrixPanel } from "./overview/matrix.tsx";
import { SessionsPanel } from "./overview/sessions.tsx";
import { SitesPanel, useSites } from "./overview/sites.tsx";
import { Totals } from "./overview/totals.tsx";

/** OverviewView shows totals, the matrix of pairs, running sessions and hosts. */
export function OverviewView() {
  useTitle("Overview");
  const hosts = useResource(agents);
  const runs = useResource(sessions);
  useResource(events);
  const only = route.value.query.get("session") ?? "";
  usePairs(only, !bySite());
  useSites(only);
  const known = hosts.value.value;
  const planned = runs.value.value;
  if (!known || !planned) {
    const fault = hosts.fault.value ?? runs.fault.value;
    return fault
      ? <Notice title="Could not load hosts and sessions" level="error">{fault} Retrying.</Notice>
      : <Notice title="Loading…" />;
  }
  if (known.length + ends.value.length === 0) return <NoAgents />;
  return (
    <div class="overview">
      <h1 class="hidden-text">Overview</h1>
      <Totals agents={known} sessions={planned} />
      <AllAway agents={known} />
      {bySite() ? <SitesPanel only={only} /> : <MatrixPanel agents={known} sessions={planned} only={only} />}
      <SessionsPanel sessions={planned} />
      <AgentsPanel agents={known} />
    </div>
  );
}
