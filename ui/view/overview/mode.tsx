// Whether the overview shows hosts or sites.
import { refine, route } from "../../data/route.ts";
import { siteMatrix } from "../../data/sites.ts";

/** Whether the overview is by site. */
export const bySite = (): boolean => route.value.query.get("view") === "sites";

/** HostsOrSites chooses between the two matrices, if there are sites. */
export function HostsOrSites() {
  const sites = bySite();
  if (!sites && (siteMatrix.value.value?.answer.sites.length ?? 0) === 0) return null;
  const to = (view: string | undefined) => refine({ view, from: undefined, to: undefined });
  return (
    <div class="segments" role="group" aria-label="Matrix of">
      <button type="button" aria-pressed={!sites} onClick={() => to(undefined)}>Hosts</button>
      <button type="button" aria-pressed={sites} onClick={() => to("sites")}>Sites</button>
    </div>
  );
}
