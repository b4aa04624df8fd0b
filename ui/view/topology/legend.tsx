// What shapes, colours and widths of the graph mean.
import type { ComponentChildren } from "preact";
import { delayGrades, lossGrades } from "./grade.ts";

const Key = ({ children }: { children: ComponentChildren }) => <svg class="key" viewBox="0 0 28 16" width="28" height="16" aria-hidden="true">{children}</svg>;

/** Legend explains the graph. */
export function Legend({ by, groups }: { by: "delay" | "loss"; groups: boolean }) {
  const grades = by === "loss" ? lossGrades : delayGrades;
  return (
    <div class="graph-legend small">
      <ul aria-label="Shapes">
        <li><Key><rect x="8" y="2" width="12" height="12" rx="3" class="key-agent" /></Key>host</li>
        <li><Key><circle cx="14" cy="8" r="6" class="key-router" /></Key>router</li>
        <li><Key><path d="M14 1l7 7-7 7-7-7z" class="key-unknown" /></Key>hop that did not answer</li>
        {groups && <li><Key><rect x="7" y="1" width="14" height="14" rx="5" class="key-group" /></Key>hosts behind one router; click to open</li>}
      </ul>
      <ul aria-label={by === "loss" ? "Colours: loss" : "Colours: delay"}>
        <li class="legend-title">{by === "loss" ? "Lost at most" : "Round-trip time, far end minus near end"}</li>
        {grades.map((g, i) => <li key={g.text}><Key><path d="M1 8h26" class={`key-line heat-${i + 1}`} /></Key>{g.text}</li>)}
        <li><Key><path d="M1 8h26" class="key-line key-none" /></Key>not measured</li>
      </ul>
      <details>
        <summary>How to read this</summary>
        {by === "loss"
          ? <p>Nobody measures the loss of an edge by itself. But what an edge loses, every pair whose packets cross it loses too. So the least loss of these pairs in the last minute is the most that the edge can have lost, as long as their packets take the traced path.</p>
          : <p>Tracing gives the round-trip time to each hop. The colour is the difference between both ends of an edge, the least that was seen. It holds the way back as well, and how long a router takes to answer; where it is below 0 it is shown as 0.</p>}
        <p>Arrows point the way that the traced packets go. A router answers with the address of the side that the packets come in by, and nobody can tell from a trace which addresses are one router: so the two directions of a way mostly lead through points of their own. Where they do share two points, one line with two arrows gives both figures.</p>
        <p>The wider a line, the more pairs cross it.</p>
      </details>
    </div>
  );
}
