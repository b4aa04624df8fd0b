// Whether a view shows hosts or sites.
import { refine, route } from "../data/route.ts";

/** Whether the view is by site. */
export const bySite = (): boolean => route.value.query.get("view") === "sites";

interface ModeProps {
  /** What is shown. */
  label: string;
  /** There are sites. */
  known: boolean;
  /** Keys of the address that depend on the mode. */
  keys: string[];
}

/** HostsOrSites chooses between the two, if there are sites. */
export function HostsOrSites({ label, known, keys }: ModeProps) {
  const sites = bySite();
  if (!sites && !known) return null;
  const to = (view: string | undefined) => refine({ view, ...Object.fromEntries(keys.map((key) => [key, undefined])) });
  return (
    <div class="segments" role="group" aria-label={label}>
      <button type="button" aria-pressed={!sites} onClick={() => to(undefined)}>Hosts</button>
      <button type="button" aria-pressed={sites} onClick={() => to("sites")}>Sites</button>
    </div>
  );
}
