// Controls of the matrix: metric, session, hosts.
import type { Agent } from "../../gen/agent_pb.ts";
import type { Session } from "../../gen/session_pb.ts";
import type { Measure } from "../../data/pair-table.ts";
import { refine } from "../../data/route.ts";
import { hasSites } from "../../data/sites.ts";
import { HostsOrSites } from "../../part/mode.tsx";
import { labelKeys, type Choice } from "./hosts.ts";
import { measureWords } from "./state.ts";

interface ControlsProps {
  agents: readonly Agent[];
  /** Active sessions. */
  sessions: readonly Session[];
  measure: Measure;
  only: string;
  choice: Choice;
  /** Hosts left out because no session measures them. */
  idle: number;
}

const kinds: Measure[] = ["delay", "p99", "loss"];

/** Controls keeps its state in the address. */
export function Controls({ agents, sessions, measure, only, choice, idle }: ControlsProps) {
  const names = sessions.map((s) => s.spec?.name ?? "");
  if (only && !names.includes(only)) names.push(only);
  const keys = labelKeys(agents);
  return (
    <div class="controls">
      <HostsOrSites label="Matrix of" known={hasSites()} keys={["from", "to"]} />
      <div class="segments" role="group" aria-label="Metric">
        {kinds.map((kind) => (
          <button key={kind} type="button" aria-pressed={kind === measure} title={measureWords[kind].long} onClick={() => refine({ by: kind === "delay" ? undefined : kind })}>{measureWords[kind].short}</button>
        ))}
      </div>
      {(names.length > 1 || only) && (
        <select aria-label="Session" value={only} onChange={(e) => refine({ session: e.currentTarget.value || undefined })}>
          <option value="">All sessions</option>
          {names.map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      )}
      {(agents.length > 2 || choice.filter) && (
        <input type="search" aria-label="Filter hosts by name or label" placeholder="Filter by name or label" value={choice.filter} onInput={(e) => refine({ hosts: e.currentTarget.value || undefined })} />
      )}
      {keys.length > 0 && (
        <select aria-label="Group hosts" value={choice.group} onChange={(e) => refine({ group: e.currentTarget.value || undefined })}>
          <option value="">By name</option>
          {keys.map((key) => <option key={key} value={key}>By {key}</option>)}
        </select>
      )}
      {(idle > 0 || choice.all) && (
        <label class="check small"><input type="checkbox" checked={choice.all} onChange={(e) => refine({ all: e.currentTarget.checked ? 1 : undefined })} /> {idle > 0 ? `Show ${idle} unmeasured hosts` : "Show unmeasured hosts"}</label>
      )}
    </div>
  );
}
