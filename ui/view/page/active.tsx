// The count beside the link to the alarms.
import { alarms, attention } from "../../data/alarms.ts";
import { useResource } from "../../data/resource.ts";

/** ActiveCount is the number of active alarms that are neither acknowledged nor silenced. */
export function ActiveCount() {
  useResource(alarms);
  const n = attention.value;
  if (!n) return null;
  const words = `${n} active ${n === 1 ? "alarm" : "alarms"}`;
  return <span class="door-count errors" title={words}><span aria-hidden="true">{n > 99 ? "99+" : n}</span><span class="hidden-text">, {words}</span></span>;
}
