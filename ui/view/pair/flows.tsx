// The flows of one direction, with search and sorting; a click filters the view by a flow.
import { useMemo, useRef } from "preact/hooks";
import type { Drawn } from "../../data/pair.ts";
import { flowsCsv, save, fileName } from "../../data/csv.ts";
import { flowsOf, flowText, granularities, podEnds, podsTitle, type Granularity } from "../../data/flows.ts";
import { ago, bytes, clock, count, duration, lossOf, moment, share } from "../../data/quantity.ts";
import { useResource } from "../../data/resource.ts";
import { refine } from "../../data/route.ts";
import { millis } from "../../data/time.ts";
import type { Clock } from "../../data/window.ts";
import { reversed } from "../../data/windows.ts";
import type { Flow, ListFlowsResponse } from "../../gen/flow_pb.ts";
import { Icon } from "../../part/icon.tsx";
import { Search } from "../../part/search.tsx";
import { Table, type Column } from "../../part/table.tsx";
import { DirectionSwitch } from "./charts.tsx";
import { flowAddress, look, showSort } from "./look.ts";

const words: Record<Granularity, string> = { flow: "Flow", "host-port": "Host and port", host: "Host" };

const delay = (key: "p50" | "p90" | "p99" | "max", title: string, help: string): Column<Flow> => ({
  key, title, help, number: true, cell: (f) => duration(f.total?.delay?.count ? f.total.delay[`${key}Ns`] : NaN),
});

const columns: readonly Column<Flow>[] = [
  { key: "flow", title: "Flow", cell: (f) => <FlowCell f={f} /> },
  { key: "packets", title: "Packets", number: true, help: "Marked packets received", cell: (f) => count(f.total?.packets) },
  { key: "bytes", title: "Volume", number: true, help: "IP bytes without marks", cell: (f) => bytes(Number(f.total?.bytes ?? 0)) },
  { key: "lost", title: "Loss", number: true, help: "Share of the packets sent that were lost (RFC 7680)", cell: (f) => share(lossOf(Number(f.total?.lost ?? 0), Number(f.total?.expected ?? 0))) },
  { key: "samples", title: "Samples", number: true, fixed: true, help: "Packets with a time stamp, on which the delays rest", cell: (f) => count(f.total?.delay?.count) },
  delay("p50", "Median", "Median one-way delay (RFC 7679)"),
  delay("p90", "p90", "90th percentile of one-way delay"),
  delay("p99", "p99", "99th percentile of one-way delay"),
  delay("max", "Max", "Maximum one-way delay"),
  { key: "last", title: "Last seen", number: true, help: "End of the last row of the flow", cell: (f) => <LastSeen ms={millis(f.last)} /> },
];

function FlowCell({ f }: { f: Flow }) {
  const pods = podEnds(f);
  return (
    <>
      <a class="pair-flow" href={flowAddress(f)} title="Show only this flow">{flowText(f)}</a>
      {pods && <span class="pair-pods soft small" title={podsTitle(f)}><span>{pods[0]}</span> → <span>{pods[1]}</span></span>}
    </>
  );
}

function LastSeen({ ms }: { ms: number | undefined }) {
  if (ms === undefined) return <>–</>;
  return <span title={moment(ms)}>{Date.now() - ms < 86400e3 ? clock(ms) : ago(ms)}</span>;
}

/** TopFlows lists the flows in the shown period. */
export function TopFlows({ drawn, live, missing, clock }: { drawn: () => Drawn | undefined; live: boolean; missing?: string; clock: Clock }) {
  const { source, destination, selection, show, by, sort, find, span, frozen } = look.value;
  const names: [string, string] = [`${source} → ${destination}`, `${destination} → ${source}`];
  const fixed = span.live ? `${span.length} ${frozen}` : `${span.from} ${span.to}`;
  const every = !live ? 3600e3 : span.live && span.length > 3600e3 ? 15e3 : 2000;
  const key = [JSON.stringify(selection), show, by, sort.key, sort.ascending, find, fixed, every].join(" ");
  const question = useMemo(() => flowsOf({
    selection: show === "back" ? reversed(selection) : selection, granularity: by, order: sort.key, ascending: sort.ascending, search: find, every,
    range: () => (span.live ? drawn() : span),
  }), [key]);
  const { value, fault } = useResource(question);
  const kept = useRef<ListFlowsResponse | undefined>(undefined);
  if (value.value) kept.current = value.value;
  const answer = kept.current;
  const flows = answer?.flows ?? [];
  const [one, other] = show === "back" ? [destination, source] : [source, destination];
  const download = () => {
    const range = drawn();
    if (range) save(fileName(`flows-by-${by}`, one, other, range.from, range.to, "csv"), flowsCsv(flows, one, other));
  };
  return (
    <section class="panel pair-flows" aria-label="Top flows">
      <header>
        <h2>Top flows</h2>
        <DirectionSwitch show={show} names={names} label="Direction of flows" />
        <div class="pair-switch" role="group" aria-label="Aggregate by">
          {granularities.map((g) => <button key={g} type="button" aria-pressed={g === by} onClick={() => refine({ by: g === "flow" ? undefined : g })}>{words[g]}</button>)}
        </div>
        <label class="pair-search"><Icon name="search" /><Search label="Search flows" placeholder="Address, port, protocol, pod" value={find} onSearch={(text) => refine({ find: text || undefined })} /></label>
        <button type="button" class="quiet" disabled={flows.length === 0} onClick={download}><Icon name="download" />CSV<span class="hidden-text"> of flows</span></button>
      </header>
      {clock === "corrected" && <p class="soft small">Delays of flows are as measured: each is one sum over the whole period, in which the clock offset is not one number.</p>}
      {fault.value && <p class="field-fault" role="alert">{fault.value}</p>}
      <Table caption={`Flows ${names[show === "out" ? 0 : 1]}`} columns={columns} rows={flows.slice(0, 200)} sort={sort} onSort={showSort} stale={answer !== undefined && value.value === undefined}
        keyOf={(f) => `${f.proto} ${f.src} ${f.sport} ${f.dst} ${f.dport}`} empty={answer === undefined ? "Loading…" : find ? `No flow matches "${find}".` : missing ?? "No flows in this period."} />
      {answer && <Count answer={answer} shown={Math.min(flows.length, 200)} sorted={sort.key === "flow"} />}
    </section>
  );
}

function Count({ answer, shown, sorted }: { answer: ListFlowsResponse; shown: number; sorted: boolean }) {
  if (answer.found === 0) return null;
  return (
    <p class="faint small pair-count" role="status">
      {answer.found > shown ? `${count(shown)} of ${count(answer.found)} shown${sorted && answer.found > answer.flows.length ? `; sorted within the ${count(answer.flows.length)} flows with the most packets` : ""}.` : `${count(answer.found)} flows.`}
      {answer.sampled > 1 && ` Quantiles are sampled from one in ${answer.sampled} rows; counts are of all.`}
    </p>
  );
}
