// The count beside the door to the events.
import { unseen, unseenCount } from "../../data/seen.ts";
import { useResource } from "../../data/resource.ts";

/** UnseenCount says how many warnings and errors came since the user last looked at the events. */
export function UnseenCount() {
  useResource(unseen);
  const { count, errors } = unseenCount.value;
  if (!count) return null;
  const words = `${count} ${errors ? "warnings and errors" : count === 1 ? "warning" : "warnings"} since you last looked`;
  return <span class={`door-count${errors ? " errors" : ""}`} title={words}><span aria-hidden="true">{count > 99 ? "99+" : count}</span><span class="hidden-text">, {words}</span></span>;
}
