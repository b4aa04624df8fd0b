import { Notice } from "../part/notice.tsx";

/** AgentView is being built. */
export function AgentView() {
  return <Notice title="Agent">This view is being built.</Notice>;
}
