// The controls of the graph.
import { useEffect, useState } from "preact/hooks";
import { limited } from "../../data/account.ts";
import { refine } from "../../data/route.ts";
import { sessions } from "../../data/sessions.ts";
import { useResource } from "../../data/resource.ts";
import { Icon } from "../../part/icon.tsx";
import { HostsOrSites } from "../../part/mode.tsx";
import { choosePair, type Choice } from "./choice.ts";
import type { Family } from "../../data/topology.ts";

interface HostProps {
  label: string;
  value: string;
  names: string[];
  onChoose: (name: string) => void;
}

/** A host by name, with completion. */
function Host({ label, value, names, onChoose }: HostProps) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const known = text === "" || names.includes(text);
  const id = `topology-${label.toLowerCase()}`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input id={id} list="topology-hosts" type="search" autocomplete="off" placeholder="any host" value={text} aria-invalid={!known} aria-describedby={known ? undefined : `${id}-why`}
        onInput={(e) => {
          const typed = e.currentTarget.value.trim();
          setText(typed);
          if (typed === "" || names.includes(typed)) onChoose(typed);
        }} />
      {!known && <p id={`${id}-why`} class="field-fault">{limited.value ? "Unknown host, or not visible." : "Unknown host."}</p>}
    </div>
  );
}

interface PickerProps {
  choice: Choice;
  /** Names of hosts. */
  hosts: string[];
  family: Family;
  /** Number of paths of each family. */
  counts: Record<"4" | "6", number>;
  /** Some hosts have a site. */
  sites: boolean;
}

/** Picker is the bar above the graph. */
export function Picker({ choice, hosts, family, counts, sites }: PickerProps) {
  useResource(sessions);
  const known = (sessions.value.value ?? []).map((s) => s.spec?.name ?? "").filter(Boolean);
  const { source, destination, session, by } = choice;
  return (
    <div class="topology-bar panel" role="search" aria-label="Graph controls">
      <datalist id="topology-hosts">{hosts.map((n) => <option key={n} value={n} />)}</datalist>
      <Host label="From" value={source} names={hosts} onChoose={(n) => choosePair(n, destination)} />
      <button class="quiet icon-only" type="button" aria-label="Swap hosts" title="Swap hosts" disabled={!source && !destination} onClick={() => choosePair(destination, source)}><Icon name="swap" /></button>
      <Host label="To" value={destination} names={hosts} onChoose={(n) => choosePair(source, n)} />
      {(sites || choice.open) && <div class="field">
        <span>Graph of</span>
        <HostsOrSites label="Graph of" known={sites} keys={["open"]} />
      </div>}
      <div class="field">
        <span id="topology-by">Colour by</span>
        <div class="segments" role="group" aria-labelledby="topology-by">
          <button type="button" aria-pressed={by === "delay"} onClick={() => refine({ by: undefined })}>Delay</button>
          <button type="button" aria-pressed={by === "loss"} onClick={() => refine({ by: "loss" })}>Loss</button>
        </div>
      </div>
      <div class="field">
        <label for="topology-family">Paths</label>
        <select id="topology-family" value={family} onChange={(e) => refine({ family: e.currentTarget.value, address: undefined, protocol: undefined, at: undefined })}>
          <option value="4">IPv4 ({counts["4"]})</option>
          <option value="6">IPv6 ({counts["6"]})</option>
          <option value="all">Both ({counts["4"] + counts["6"]})</option>
        </select>
      </div>
      <div class="field">
        <label for="topology-session">Session</label>
        <select id="topology-session" value={session} onChange={(e) => refine({ session: e.currentTarget.value || undefined })}>
          <option value="">all</option>
          {[...new Set(session ? [session, ...known] : known)].map((n) => <option key={n} value={n}>{n}</option>)}
        </select>
      </div>
    </div>
  );
}
