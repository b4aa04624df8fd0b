// Hops of a path as a table.
import { duration } from "../../data/quantity.ts";
import type { Line } from "../../data/trace.ts";
import type { Hop } from "../../gen/topology_pb.ts";
import type { Figure } from "./grade.ts";
import { InsideRow, profiled } from "./one-way.tsx";

/** What an address is called: the host that has it, or its name by reverse DNS. */
export interface Called {
  host?: string;
  dns?: string;
}
export type Naming = (address: string) => Called | undefined;

/** A hop by name and address. */
export function Who({ hop, naming }: { hop: Hop; naming: Naming }) {
  if (!hop.address) return <span class="faint" title="No reply. Many routers do not reply, or not always; this does not indicate loss.">no reply</span>;
  const called = naming(hop.address);
  return <>{called?.host ? <strong>{called.host} </strong> : called?.dns && <span title="name by reverse DNS">{called.dns} </span>}<code>{hop.address}</code></>;
}

interface HopsProps {
  hops: Hop[];
  naming: Naming;
  reached: boolean;
  /** Figures of the links to the hops, and their heading. */
  edges: (Figure | undefined)[];
  what: string;
}

/** Hops lists the hops of one path. */
export function Hops({ hops, naming, reached, edges, what }: HopsProps) {
  return (
    <>
      <div class="scroll-x" tabIndex={0} role="group" aria-label="Hops of the path">
        <table class="hops">
          <caption class="hidden-text">Round-trip times of each hop, by traceroute</caption>
          <thead><tr><th class="number">Hop</th><th>Address</th><th class="number">Round trip</th><th class="number">Replies</th><th class="number">{what}</th></tr></thead>
          <tbody>
            {hops.flatMap((h, i) => [
              <tr key={h.ttl} class={profiled(h) ? "with-inside" : undefined}>
                <td class="number">{h.ttl}</td>
                <td><Who hop={h} naming={naming} /></td>
                <td class="number">{duration(h.address ? Number(h.rttNs) : undefined)}</td>
                <td class="number">{h.answers}<span class="faint">/{h.sent}</span></td>
                <td class="number" title={edges[i]?.long}>{edges[i]?.value === undefined ? "–" : edges[i].text}</td>
              </tr>,
              profiled(h) && <InsideRow key={`${h.ttl} inside`} hop={h} columns={5} />,
            ])}
          </tbody>
        </table>
      </div>
      <p class="small faint">Round trips of traceroute's own probes, there and back; they are not the delay of a hop.</p>
      {hops.some((h) => !h.address) && <p class="small faint">A missing reply does not indicate loss: many routers do not reply, or not always.</p>}
      {!reached && <p class="small bad-text">The far end did not reply: the path is known only up to here.</p>}
    </>
  );
}

const words = { same: "", gone: "removed", new: "new" } as const;
const signs = { same: "", gone: "−", new: "+" } as const;

/** Lines shows two routes side by side; differences have a sign, a word and a colour. */
export function Lines({ lines, was, is, naming }: { lines: Line[]; was: string; is: string; naming: Naming }) {
  const cell = (hop: Hop | undefined, kind: Line["kind"]) =>
    <td class={hop ? `route-${kind}` : ""}>{hop && <><span class="number">{hop.ttl}</span> <Who hop={hop} naming={naming} /> {kind !== "same" && <span class="mark"><span aria-hidden="true">{signs[kind]}</span> {words[kind]}</span>}</>}</td>;
  return (
    <div class="scroll-x" tabIndex={0} role="group" aria-label={`${was} and ${is}, side by side`}>
      <table class="routes">
        <caption class="hidden-text">{was} and {is}, side by side</caption>
        <thead><tr><th>{was}</th><th>{is}</th></tr></thead>
        <tbody>{lines.map((l, i) => <tr key={i}>{cell(l.was, l.kind)}{cell(l.is, l.kind)}</tr>)}</tbody>
      </table>
    </div>
  );
}
