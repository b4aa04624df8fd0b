// The count beside the link to the events.
import { unseen, unseenCount } from "../../data/seen.ts";
import { useResource } from "../../data/resource.ts";

/** UnseenCount is the number of warnings and errors since the user last viewed the events. */
export function UnseenCount() {
  useResource(unseen);
  const { count, errors } = unseenCount.value;
  if (!count) return null;
  const words = `${count} ${errors ? "warnings and errors" : count === 1 ? "warning" : "warnings"} since your last visit`;
  return <span class={`door-count${errors ? " errors" : ""}`} title={words}><span aria-hidden="true">{count > 99 ? "99+" : count}</span><span class="hidden-text">, {words}</span></span>;
}
