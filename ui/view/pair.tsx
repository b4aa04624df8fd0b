import { Notice } from "../part/notice.tsx";

/** PairView is being built. */
export function PairView() {
  return <Notice title="Pair">This view is being built.</Notice>;
}
