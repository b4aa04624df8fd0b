// All paths as a table.
import { useState } from "preact/hooks";
import { methodOf } from "../../data/one-way.ts";
import { ago, moment } from "../../data/quantity.ts";
import { millis } from "../../data/time.ts";
import { sitesOf } from "../../data/topology.ts";
import type { Path } from "../../gen/topology_pb.ts";
import { choosePath } from "./choice.ts";

const firstRows = 50;

/** PathTable lists paths; a selected one is highlighted in the graph. */
export function PathTable({ paths, shown, sites }: { paths: Path[]; shown?: Path; sites: boolean }) {
  const [search, setSearch] = useState("");
  const [rows, setRows] = useState(firstRows);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length === 0 ? paths : paths.filter((p) => {
    const text = `${p.source} ${p.destination} ${p.address} ${methodOf(p)} ${p.nodes.join(" ")} ${p.hops.map((h) => h.address).join(" ")}`.toLowerCase();
    return words.every((w) => text.includes(w));
  });
  return (
    <section class="panel" aria-labelledby="paths-title">
      <header>
        <h2 id="paths-title">Paths{sites && " between sites"}</h2>
        <input type="search" aria-label="Search paths" placeholder="host or address" value={search} onInput={(e) => { setSearch(e.currentTarget.value); setRows(firstRows); }} />
        <span class="small soft" role="status">{found.length === paths.length ? `${paths.length} paths` : `${found.length} of ${paths.length} paths`}</span>
      </header>
      <div class="scroll-x">
        <table class="paths">
          <caption class="hidden-text">Paths; choose one to see its hops</caption>
          <thead><tr><th>Path</th><th>Address</th><th class="number">Hops</th><th>Far end</th><th>Route since</th><th>Measured</th></tr></thead>
          <tbody>
            {found.slice(0, rows).map((p) => {
              const on = p.source === shown?.source && p.destination === shown.destination && p.address === shown.address && p.protocol === shown.protocol;
              return (
                <tr key={`${p.source} ${p.destination} ${p.address} ${p.protocol}`} class={on ? "chosen" : ""}>
                  <td><button type="button" class="quiet path-button" aria-pressed={on} onClick={() => choosePath(p)}>{p.source} to {p.destination || p.address}</button><Sites path={p} /></td>
                  <td><code>{p.address}</code> <span class="small faint">{methodOf(p)}</span></td>
                  <td class="number">{p.hops.length}</td>
                  <td>{p.reached ? "reached" : <span class="bad-text">not reached</span>}</td>
                  <td>{time(p.changed, moment)}</td>
                  <td>{time(p.time, ago)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {found.length === 0 && <p class="soft">No path has all of these words.</p>}
      {found.length > rows && <button type="button" class="quiet" onClick={() => setRows(rows + 200)}>Show more ({found.length - rows})</button>}
    </section>
  );
}

/** Sites names the sites at the ends of a path, where the graph shows these instead of its hosts. */
function Sites({ path }: { path: Path }) {
  const [from, to] = sitesOf(path);
  if (!from && !to) return null;
  return <span class="small soft"> {from || path.source} → {to || path.destination || path.address}</span>;
}

const time = (t: Path["time"], write: (ms: number) => string): string => {
  const ms = millis(t);
  return ms === undefined ? "–" : write(ms);
};
