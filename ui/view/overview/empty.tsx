// Empty states of the overview.
import type { Agent } from "../../gen/agent_pb.ts";
import { limited, operates, who } from "../../data/account.ts";
import { ago } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import { millis } from "../../data/time.ts";
import { Icon } from "../../part/icon.tsx";
import { Notice } from "../../part/notice.tsx";

/** The server's address for other hosts, derived from the address of the page; on loopback it is unknown. */
const serverAddress = ({ hostname, host }: { hostname: string; host: string }) => (/^(localhost|127\..*|\[::1\])$/.test(hostname) ? undefined : host);

/** NoAgents explains how a host joins; at is the address of the page. */
export function NoAgents({ at = location }: { at?: { hostname: string; host: string } }) {
  if (limited.value) return <NotVisible title="No host is visible" />;
  return (
    <Notice title="No host has joined yet">
      <p>Run this command as root on the host:</p>
      <pre class="left"><code>pillion-agent run --server {serverAddress(at) ?? "ADDRESS"} --token-file join.token</code></pre>
      {serverAddress(at) === undefined && <p>Replace <code>ADDRESS</code> by a host name or address under which the host reaches this server.</p>}
      {operates.value
        ? <p>The file <code>join.token</code> is in the data directory of the server, by default <code>/var/lib/pillion-server</code>. Each host needs it once. The host must reach ports 8470 and 8471 of this server.</p>
        : <p>Ask the administrator of the server for the join token.</p>}
      <p>The host appears here as soon as it has joined.</p>
    </Notice>
  );
}

/** NotVisible says that a limited token sees nothing of what is asked for. */
export function NotVisible({ title }: { title: string }) {
  return <Notice title={title}>The token {who.value?.name} sees only {who.value?.scope.join(", ")}: nothing of it has joined this server yet.</Notice>;
}

/** NewSession links operators to the session form. */
export function NewSession() {
  if (!operates.value) return null;
  return <a class="button main" href={href(["sessions", "new"])}><Icon name="plus" />New session</a>;
}

/** NothingMeasured replaces the matrix while no session runs. */
export function NothingMeasured({ hosts, scheduled }: { hosts: number; scheduled: number }) {
  const scheduledWords = scheduled === 0 ? "" : scheduled === 1 ? " One session is scheduled." : ` ${scheduled} sessions are scheduled.`;
  const next = hosts < 2 ? "At least two hosts are needed: packets are measured from one host to another." : operates.value
    ? "Create a session to measure the traffic between hosts."
    : "An operator can start a session between these hosts.";
  return <Notice title="No active measurement" action={hosts < 2 ? undefined : <NewSession />}>{next}{scheduledWords}</Notice>;
}

/** AllAway warns that no host is connected. */
export function AllAway({ agents }: { agents: readonly Agent[] }) {
  const joined = agents.filter((a) => a.state !== "revoked");
  if (joined.length === 0 || joined.some((a) => a.state === "connected")) return null;
  const last = Math.max(...joined.map((a) => millis(a.seen) ?? 0));
  return (
    <Notice level="warning" title={joined.length === 1 ? "The only host is away" : `All ${joined.length} hosts are away`}>
      {last > 0 ? `The last one was seen ${ago(last)}. ` : "None has been seen since the server started. "}
      Check that <code>pillion-agent</code> is running on them and can reach port 8471 of this server. Traffic continues unmarked.
    </Notice>
  );
}
