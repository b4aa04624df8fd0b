// Checks of a host, on request.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Agent, Check } from "../../gen/agent_pb.ts";
import { operates } from "../../data/account.ts";
import { agentClient, sentence } from "../../data/client.ts";
import { clock } from "../../data/quantity.ts";
import { Findings } from "../../part/findings.tsx";

const order = ["error", "warning", "ok"];

/** ChecksPanel lets operators run the checks of a host. */
export function ChecksPanel({ agent }: { agent: Agent }) {
  const [found, setFound] = useState<{ checks: Check[]; at: number }>();
  const [fault, setFault] = useState("");
  const [busy, setBusy] = useState(false);
  const abort = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => abort.current?.abort(), []);
  if (!operates.value) return null;
  const check = async () => {
    const mine = (abort.current = new AbortController());
    setBusy(true);
    setFault("");
    try {
      const { checks } = await agentClient.checkAgent({ name: agent.name }, { signal: mine.signal });
      if (!mine.signal.aborted) setFound({ checks: [...checks].sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level)), at: Date.now() });
    } catch (e) {
      if (!mine.signal.aborted) setFault(sentence(e));
    }
    setBusy(false);
  };
  const away = agent.state !== "connected";
  return (
    <section class="panel" aria-labelledby="checks-title" aria-busy={busy}>
      <header class="spread">
        <h2 id="checks-title">Checks</h2>
        <button type="button" disabled={busy || away} onClick={() => void check()}>{busy ? "Checking…" : "Check this host"}</button>
      </header>
      {busy && <progress class="busy" aria-label="Running checks" />}
      <p class="soft" aria-live="polite">{busy ? "Checking kernel, privileges, clock, disk space, interfaces and reachability of other hosts. This takes up to 5 s."
        : away ? "Checks need a connected host."
        : found ? `${summary(found.checks)}, at ${clock(found.at)}.`
        : "Checks kernel, privileges, clock, disk space, interfaces and reachability of all connected hosts. It changes nothing."}</p>
      {fault && <p class="fault" role="alert">{fault}</p>}
      {found && !busy && <Findings list={found.checks} />}
    </section>
  );
}

function summary(checks: Check[]): string {
  const of = (level: string) => checks.filter((c) => c.level === level).length;
  const [errors, warnings] = [of("error"), of("warning")];
  if (errors + warnings === 0) return `All ${checks.length} checks passed`;
  return `${checks.length} checks: ${errors === 1 ? "1 error" : `${errors} errors`}, ${warnings === 1 ? "1 warning" : `${warnings} warnings`}`;
}
