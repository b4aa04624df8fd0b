import { Notice } from "../part/notice.tsx";

/** OverviewView is being built. */
export function OverviewView() {
  return <Notice title="Overview">This view is being built.</Notice>;
}
