import { Notice } from "../part/notice.tsx";

/** EventsView is being built. */
export function EventsView() {
  return <Notice title="Events">This view is being built.</Notice>;
}
