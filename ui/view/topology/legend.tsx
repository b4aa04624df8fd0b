// The legend of the graph.
import type { ComponentChildren } from "preact";
import { delayGrades, lossGrades } from "./grade.ts";

const Key = ({ children, width = 28 }: { children: ComponentChildren; width?: number }) => <svg class="key" viewBox={`${(28 - width) / 2} 0 ${width} 16`} width={width} height="16" aria-hidden="true">{children}</svg>;

/** Legend explains the graph. */
export function Legend({ by, groups, sites }: { by: "delay" | "loss"; groups: boolean; sites: boolean }) {
  const grades = by === "loss" ? lossGrades : delayGrades;
  return (
    <div class="graph-legend small">
      <ul aria-label="Shapes">
        <li><Key width={14}><rect x="8" y="2" width="12" height="12" rx="3" class="key-agent" /></Key>host</li>
        <li><Key width={14}><circle cx="14" cy="8" r="6" class="key-router" /></Key>router</li>
        <li><Key width={14}><path d="M14 1l7 7-7 7-7-7z" class="key-unknown" /></Key>no reply</li>
        {groups && <li><Key width={14}><path d="M11 1h6l4 4v6l-4 4h-6l-4-4V5z" class="key-group" /></Key>hosts behind one router; click to expand</li>}
        {sites && <li><Key width={14}><path d="M11 1h6l4 4v6l-4 4h-6l-4-4V5z" class="key-group" /></Key>all hosts of a site; click to show them</li>}
      </ul>
      <ul aria-label={by === "loss" ? "Colours: loss" : "Colours: delay"}>
        <li class="legend-title">{by === "loss" ? "Loss, upper bound" : "Delay: one way where measured in packets, else round trip, far end minus near end"}</li>
        {grades.map((g, i) => <li key={g.text}><Key><path d="M1 8h26" class={`key-line heat-${i + 1}`} /></Key>{g.text}</li>)}
        <li><Key><path d="M1 8h26" class="key-line key-none" /></Key>not measured</li>
      </ul>
      <details>
        <summary>How to read this</summary>
        {by === "loss"
          ? <p>The loss of a link is not measured directly. Packets lost on a link are lost for every pair that uses it, so the lowest loss of these pairs in the last minute is an upper bound for the link, provided that their packets take the traced path.</p>
          : <><p>“One way” marks delays that were measured in packets: routers wrote the time into them (IOAM), in sessions with hop-by-hop measurement. The figure is the median of the last interval, from one end to the other.</p><p>Without that, tracing measures the round-trip time to each hop. The colour shows the smallest difference seen between both ends of a link. It includes the return path and the router's reply time; negative values are shown as 0.</p></>}
        <p>Arrows point in the direction of the traced packets. If both directions share two nodes, one line with two arrows shows both figures. A router replies with the address of its incoming interface. An agent on a router knows all addresses of it, which are one node then; of other routers a trace cannot tell which addresses belong together, so both directions of a path usually pass through different nodes. Packets show a router by its IOAM identifier, which is a node of its own unless an agent on the router states it.</p>
        {sites && <p>Of the paths between two sites with the same routers, only the last traced is shown and counted; paths within a site are not shown. A link between a site and a router has the smallest round-trip time difference of its hosts, and the latest one-way delay.</p>}
        <p>Wider lines are used by more pairs.</p>
      </details>
    </div>
  );
}
