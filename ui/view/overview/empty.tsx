// What to do when there is nothing to see yet.
import type { Agent } from "../../gen/agent_pb.ts";
import { operates } from "../../data/account.ts";
import { ago } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import { millis } from "../../data/time.ts";
import { Icon } from "../../part/icon.tsx";
import { Notice } from "../../part/notice.tsx";

/** NoAgents says how a host joins. */
export function NoAgents() {
  return (
    <Notice title="No host has joined yet">
      <p>A host joins with one command, run as root on it:</p>
      <pre class="left"><code>pillion-agent run --server {location.hostname} --token-file join.token</code></pre>
      {operates.value
        ? <p>The file <code>join.token</code> is in the data folder of the server, by default <code>/var/lib/pillion-server</code>. It is needed once for each host. The host reaches this server at ports 8470 and 8471.</p>
        : <p>The join token is with whoever runs the server.</p>}
      <p>This page shows the host as soon as it has joined.</p>
    </Notice>
  );
}

/** NewSession leads operators to the form for a session. */
export function NewSession() {
  if (!operates.value) return null;
  return <a class="button main" href={href(["sessions", "new"])}><Icon name="plus" />New session</a>;
}

/** NothingMeasured stands in place of the matrix while no session runs. */
export function NothingMeasured({ hosts, scheduled }: { hosts: number; scheduled: number }) {
  const later = scheduled === 0 ? "" : scheduled === 1 ? " One session is scheduled." : ` ${scheduled} sessions are scheduled.`;
  const next = hosts < 2 ? "A second host is needed: packets are measured from one host to another." : operates.value
    ? "A session says which hosts measure the traffic between them."
    : "An operator can start a session between these hosts.";
  return <Notice title="Nothing is measured now" action={hosts < 2 ? undefined : <NewSession />}>{next}{later}</Notice>;
}

/** AllAway says that no host is connected. */
export function AllAway({ agents }: { agents: readonly Agent[] }) {
  const joined = agents.filter((a) => a.state !== "revoked");
  if (joined.length === 0 || joined.some((a) => a.state === "connected")) return null;
  const last = Math.max(...joined.map((a) => millis(a.seen) ?? 0));
  return (
    <Notice level="warning" title={joined.length === 1 ? "The only host is away" : `All ${joined.length} hosts are away`}>
      {last > 0 ? `The last was heard ${ago(last)}. ` : "None has been heard since the server started. "}
      Look whether <code>pillion-agent</code> runs on them and whether they reach port 8471 of this server. Traffic goes on, unmarked.
    </Notice>
  );
}
