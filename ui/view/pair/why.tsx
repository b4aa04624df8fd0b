// Why a pair has no data, and what to do.
import { operates } from "../../data/account.ts";
import { agents } from "../../data/agents.ts";
import { cause, faults, type Explained } from "../../data/reasons.ts";
import { href } from "../../data/route.ts";
import { selected } from "../../data/selector.ts";
import { lengthOf } from "../../data/span.ts";
import type { Session } from "../../gen/session_pb.ts";
import { Findings } from "../../part/findings.tsx";
import { Notice } from "../../part/notice.tsx";
import { look, showSpan } from "./look.ts";

/** Reports whether a session measures, or would measure, from one host to another. */
export function measures(s: Session, source: string, destination: string): boolean {
  if (s.pairs.length > 0) return s.pairs.some((p) => p.source === source && p.destination === destination);
  // An inactive session has no pairs.
  const { sources = [], destinations = [], both = false } = s.spec ?? {};
  const hosts = agents.value.value ?? [];
  const among = (selectors: string[], name: string): boolean => selectors.some((s) => s === "*" || s === name || selected(s, hosts).some((a) => a.name === name));
  const way = (from: string, to: string): boolean => among(sources, from) && among(destinations, to);
  return way(source, destination) || (both && way(destination, source));
}

interface WhyProps {
  source: string;
  destination: string;
  /** What the server says of both directions. */
  explained: readonly Explained[];
  fault?: string;
  onRetry: () => void;
}

/** Why replaces the charts with the reason why they are empty. */
export function Why({ source, destination, explained, fault = explained.find((e) => e.fault)?.fault, onRetry }: WhyProps) {
  if (fault) {
    return <Notice level="error" title="Could not load the data" action={<button type="button" onClick={onRetry}>Retry</button>}>{fault}</Notice>;
  }
  if (explained.some((e) => !e.reasons)) return <Notice title="Loading…" />;
  const reasons = explained.flatMap((e) => e.reasons ?? []);
  const wrong = faults(reasons);
  const session = reasons.find((r) => r.session)?.session;
  const hosts = [...new Set(wrong.filter((r) => r.name === "agent").map((r) => r.agent))];
  return (
    <Notice
      level={wrong[0]?.level === "error" ? "error" : "info"}
      title={look.value.narrowed ? "No packets of this flow in this period" : "No packets of this pair in this period"}
      action={<>
        {session ? <a class="button" href={href(["sessions", session])}>Session {session}</a> : operates.value && <a class="button main" href={href(["sessions", "new"], { from: source, to: destination })}>Measure this pair</a>}
        {hosts.map((name) => <a key={name} class="button" href={href(["agent", name])}>Host {name}</a>)}
        <button type="button" onClick={() => showSpan({ live: true, length: lengthOf("24h") ?? 0 })}>Show the last 24 h</button>
      </>}
    >
      {look.value.narrowed && <p>The view is filtered by a flow, which may have ended.</p>}
      {wrong.length > 0 ? <Findings list={wrong} /> : <p>Marked packets arrive now.</p>}
    </Notice>
  );
}

/** Why one direction is empty. */
export function missingWords({ reasons }: Explained, source: string, destination: string): string | undefined {
  const first = reasons && cause(reasons);
  return first ? `${first.where}: ${first.found}.` : reasons && `No packets from ${source} to ${destination} in this period.`;
}
