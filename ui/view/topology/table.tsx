// All paths as a table.
import { useMemo, useState } from "preact/hooks";
import { methodOf } from "../../data/one-way.ts";
import { ago, moment } from "../../data/quantity.ts";
import { sitesOf, stepsOf, type Graph, type PathEntry } from "../../data/topology.ts";
import { choosePath } from "./choice.ts";

const firstRows = 50;

/** PathTable lists paths; a selected one is highlighted in the graph. */
export function PathTable({ graph, shown, sites }: { graph: Graph; shown?: PathEntry | undefined; sites: boolean }) {
  const [search, setSearch] = useState("");
  const [rows, setRows] = useState(firstRows);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const { paths, all } = graph;
  const texts = useMemo(() => new Map<number, string>(), [graph]);
  const textOf = ({ number, nodes }: PathEntry["route"]): string => {
    let text = texts.get(number);
    if (text === undefined) texts.set(number, (text = nodes.map((n) => `${all[n]?.id} ${all[n]?.name} ${all[n]?.addresses.join(" ")}`).join(" ")));
    return text;
  };
  const found = words.length === 0 ? paths : paths.filter((p) => {
    const text = `${p.source} ${p.destination} ${p.address} ${methodOf(p)} ${textOf(p.route)}`.toLowerCase();
    return words.every((w) => text.includes(w));
  });
  return (
    <section class="panel" aria-labelledby="paths-title">
      <header>
        <h2 id="paths-title">Paths{sites && " between sites"}</h2>
        <input type="search" aria-label="Search paths" placeholder="Search host or address" value={search} onInput={(e) => { setSearch(e.currentTarget.value); setRows(firstRows); }} />
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
                  <td><button type="button" class="quiet path-button" aria-pressed={on} onClick={() => choosePath(p)}>{p.source} to {p.destination || p.address}</button><Sites path={p} nodes={all} /></td>
                  <td><code>{p.address}</code> <span class="small faint">{methodOf(p)}</span></td>
                  <td class="number">{stepsOf(p).length - 1}</td>
                  <td>{p.reached ? "reached" : <span class="bad-text">not reached</span>}</td>
                  <td>{moment(p.changed)}</td>
                  <td>{ago(p.time)}</td>
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
function Sites({ path, nodes }: { path: PathEntry; nodes: Graph["all"] }) {
  const [from, to] = sitesOf(path, nodes);
  if (!from && !to) return null;
  return <span class="small soft"> {from || path.source} → {to || path.destination || path.address}</span>;
}
