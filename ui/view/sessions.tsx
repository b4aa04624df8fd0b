import { Notice } from "../part/notice.tsx";

/** SessionsView is being built. */
export function SessionsView() {
  return <Notice title="Sessions">This view is being built.</Notice>;
}
