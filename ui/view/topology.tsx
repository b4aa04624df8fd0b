import { Notice } from "../part/notice.tsx";

/** TopologyView is being built. */
export function TopologyView() {
  return <Notice title="Topology">This view is being built.</Notice>;
}
