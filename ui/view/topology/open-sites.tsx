// The sites of which the graph shows the hosts.
import type { Node } from "../../gen/topology_pb.ts";
import { Icon } from "../../part/icon.tsx";
import { openSites } from "./choice.ts";

/** OpenSites opens and closes sites; those that are closed are one node each. */
export function OpenSites({ open, nodes }: { open: readonly string[]; nodes: readonly Node[] }) {
  const closed = nodes.filter((n) => n.kind === "site").sort((a, b) => a.site.localeCompare(b.site, "en", { numeric: true }));
  return (
    <div class="row open-sites">
      <label class="small soft" for="topology-open">Show hosts of</label>
      <select id="topology-open" value="" disabled={closed.length === 0} onChange={(e) => {
        const site = e.currentTarget.value;
        e.currentTarget.value = "";
        if (site) openSites([...open, site]);
      }}>
        <option value="">{closed.length === 0 ? "all sites are shown" : "choose a site"}</option>
        {closed.map((n) => <option key={n.id} value={n.site}>{n.site} ({n.agents})</option>)}
      </select>
      {open.map((site) => (
        <button key={site} type="button" class="quiet" aria-label={`Show ${site} as one node`} title={`Show ${site} as one node`} onClick={() => openSites(open.filter((s) => s !== site))}>{site}<Icon name="close" /></button>
      ))}
    </div>
  );
}
