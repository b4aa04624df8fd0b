// Totals of all hosts and sessions.
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { Agent } from "../../gen/agent_pb.ts";
import type { Session } from "../../gen/session_pb.ts";
import type { HostFigures, SiteFigures } from "../../gen/flow_pb.ts";
import { limited } from "../../data/account.ts";
import { ends } from "../../data/agents.ts";
import { events } from "../../data/events.ts";
import { pairsVersion, pairTable } from "../../data/pairs.ts";
import { count, duration, packetRate, share } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import { millis } from "../../data/time.ts";
import { hostFigure, siteFigure, siteMatrix, siteName, worstFirst } from "../../data/sites.ts";
import { Measured, measures } from "./hosts.ts";
import { bySite } from "../../part/mode.tsx";
import { stateOf, worst } from "./state.ts";

const hour = 3_600_000;

/** Totals shows the totals in one line. */
export function Totals({ agents, sessions }: { agents: readonly Agent[]; sessions: readonly Session[] }) {
  const connected = agents.filter((a) => a.state === "connected").length;
  const away = agents.filter((a) => a.state === "away").length;
  const running = useMemo(() => sessions.filter(measures), [sessions]);
  const degraded = running.filter((s) => s.state === "degraded").length;
  return (
    <section class="totals" aria-label="Totals">
      {agents.length === 0 && ends.value.length > 0
        ? <Total name="Hosts" note="state not visible">{ends.value.length}</Total>
        : <Total name="Hosts connected" note={away > 0 ? `${away} away` : "none away"} tone={away > 0 ? "bad" : undefined}>{connected}</Total>}
      <Total name="Sessions running" note={degraded > 0 ? `${degraded} degraded` : ""} tone={degraded > 0 ? "warning" : undefined}>{running.length}</Total>
      {bySite() && !limited.value ? <SiteTotals /> : <LiveTotals running={running} />}
      <Alarms />
    </section>
  );
}

function LiveTotals({ running }: { running: readonly Session[] }) {
  void pairsVersion.value;
  const now = performance.now();
  const live = (pair: number) => stateOf(pairTable.age(pair, now), undefined) !== "none";
  let [pairs, packets] = [0, 0];
  for (let pair = 0; pair < pairTable.size; pair++) {
    if (!live(pair)) continue;
    pairs++;
    packets += pairTable.packetRate(pair);
  }
  const wanted = useMemo(() => new Measured(running).size, [running]);
  const loss = worst(pairTable, "loss", live, 1)[0];
  const late = worst(pairTable, "p99", live, 1)[0];
  return (
    <>
      <Total name="Pairs with traffic" note={wanted > 0 ? `of ${count(wanted)} in sessions` : ""}>{count(pairs)}</Total>
      <Total name="Measured packets">{pairs > 0 ? packetRate(packets) : "–"}</Total>
      <Total name="Highest loss, 10 s" tone={loss && loss.value >= 0.01 ? "bad" : undefined} note={loss ? <PairLink pair={loss.pair} /> : pairs > 0 ? "no loss" : ""}>
        {pairs > 0 ? share(loss?.value ?? 0) : "–"}
      </Total>
      <Total name="Highest p99 delay" note={late ? <PairLink pair={late.pair} /> : ""}>{duration(late?.value)}</Total>
    </>
  );
}

/** Totals of the pairs of sites, of the last minute. */
function SiteTotals() {
  const pairs = siteMatrix.value.value?.answer.pairs ?? [];
  const hosts = pairs.flatMap((p) => p.worst ?? []);
  const loss = worstFirst(hosts, (p) => hostFigure(p, "loss"))[0];
  const late = worstFirst(pairs, (p) => siteFigure(p, "p99"))[0];
  const sum = (figure: (p: SiteFigures) => number) => pairs.reduce((total, p) => total + figure(p), 0);
  const lost = loss ? hostFigure(loss, "loss") : NaN;
  const link = (p: HostFigures | undefined) => p && <a href={href(["pair", p.source, p.destination])}>{p.source} → {p.destination}</a>;
  return (
    <>
      <Total name="Pairs with traffic" note={`${count(pairs.length)} pairs of sites`}>{count(sum((p) => p.pairs))}</Total>
      <Total name="Measured packets" note="last minute">{count(sum((p) => Number(p.total?.packets ?? 0n)))}</Total>
      <Total name="Highest loss, 60 s" tone={lost >= 0.01 ? "bad" : undefined} note={lost > 0 ? link(loss) : pairs.length > 0 ? "no loss" : ""}>{pairs.length > 0 ? share(lost) : "–"}</Total>
      <Total name="Highest p99 delay" note={late && <a href={href([], { view: "sites", from: late.source, to: late.destination })}>{siteName(late.source)} → {siteName(late.destination)}</a>}>{duration(late && siteFigure(late, "p99"))}</Total>
    </>
  );
}

/** PairLink links to a pair. */
function PairLink({ pair }: { pair: number }) {
  const source = pairTable.agents[pairTable.source[pair] ?? -1] ?? "";
  const destination = pairTable.agents[pairTable.destination[pair] ?? -1] ?? "";
  return <a href={href(["pair", source, destination])}>{source} → {destination}</a>;
}

function Alarms() {
  const all = events.value.value;
  const since = Date.now() - hour;
  const late = all?.filter((e) => e.level !== "info" && (millis(e.time) ?? 0) >= since);
  const errors = late?.filter((e) => e.level === "error").length ?? 0;
  const note = late === undefined ? "" : <a href="#/events">{errors > 0 ? `including ${errors} ${errors === 1 ? "error" : "errors"}` : "show events"}</a>;
  return <Total name="Warnings, 1 h" tone={errors > 0 ? "bad" : late?.length ? "warning" : undefined} note={note}>{late === undefined ? "–" : late.length}</Total>;
}

function Total({ name, note, tone, children }: { name: string; note?: ComponentChildren; tone?: "bad" | "warning" | undefined; children: ComponentChildren }) {
  return (
    <div class={`total ${tone ?? ""}`}>
      <span class="total-name">{name}</span>
      <strong>{children}</strong>
      <span class="total-note">{note || "\u00a0"}</span>
    </div>
  );
}
