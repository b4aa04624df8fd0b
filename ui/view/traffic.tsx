// The traffic matrix: who sends how much to whom, of what sessions measure.
import { useMemo, useRef } from "preact/hooks";
import { save } from "../data/csv.ts";
import { count, moment, share } from "../data/quantity.ts";
import { useResource } from "../data/resource.ts";
import { href, route } from "../data/route.ts";
import { amountText, estimate, estimateText, gridOf, scalingWords, trafficCsv, trafficOf, type TrafficQuestion } from "../data/traffic.ts";
import type { TrafficMatrixResponse, TrafficVolume } from "../gen/flow_pb.ts";
import { Icon } from "../part/icon.tsx";
import { Notice } from "../part/notice.tsx";
import { Table, type Column } from "../part/table.tsx";
import { useTitle } from "../part/title.ts";
import "../style/traffic.css";
import { Bar } from "./traffic/bar.tsx";
import { groupingWords, lookOf } from "./traffic/look.ts";
import { Picture } from "./traffic/picture.tsx";

const side = 200; // rows and columns of the picture
const listMost = 200;

/** TrafficView shows the traffic matrix as a picture and as a table. */
export function TrafficView() {
  const look = lookOf(route.value);
  const key = JSON.stringify(look);
  const question = useMemo(() => trafficOf(look), [key]);
  const { value, fault } = useResource(question);
  const last = useRef<{ answer: TrafficMatrixResponse; by: string } | undefined>(undefined);
  if (value.value) last.current = { answer: value.value, by: look.by };
  const answer = last.current?.by === look.by ? last.current.answer : undefined;
  useTitle("Traffic");
  return (
    <div class="stack traffic">
      <header class="row spread">
        <h1>Traffic</h1>
        <button type="button" disabled={!answer?.volumes.length} onClick={() => answer && save(`traffic-${look.by}-${moment(Date.now()).replace(/[ :]/g, "-")}.csv`, trafficCsv(answer.volumes))}><Icon name="download" />Export CSV</button>
      </header>
      <Bar look={look} label={answer?.label ?? ""} />
      {fault.value && <Notice title="Could not load the matrix" level="error">{fault.value}</Notice>}
      {answer ? <Answer answer={answer} look={look} stale={value.value === undefined} /> : !fault.value && <p class="soft" role="status">Loading…</p>}
    </div>
  );
}

const nobody = (look: TrafficQuestion) => (look.by === "label" ? "no value" : look.by === "pair" ? "unknown host" : "any");

function Answer({ answer, look, stale }: { answer: TrafficMatrixResponse; look: TrafficQuestion; stale: boolean }) {
  const { amount } = look;
  const grid = useMemo(() => gridOf(answer.volumes, amount, side), [answer, amount]);
  const version = useRef(0);
  useMemo(() => version.current++, [grid]);
  const name = (text: string) => text || nobody(look);
  if (answer.volumes.length === 0) {
    return <Notice title="No measured traffic">The matrix has the packets of flows that sessions measure. None arrived in this time.</Notice>;
  }
  const address = (from: string, to: string) => (look.by === "pair" && from && to ? href(["pair", from, to], { session: look.session }) : undefined);
  return (
    <>
      <Total total={answer.total} unread={answer.unreadPackets} />
      <section class="panel" aria-label="Matrix">
        <Picture grid={grid} amount={amount} version={version.current} name={name} address={address} label={`Traffic from the ${groupingWords[look.by].one} of the row to that of the column`} />
        {grid.left > 0 && <p class="small soft">The {side} with most traffic are shown, {count(grid.left)} others are in the table.</p>}
      </section>
      <section class="panel" aria-labelledby="traffic-rows">
        <header><h2 id="traffic-rows">Volumes</h2><span class="soft">{answer.found > listMost ? `largest ${listMost} of ${count(answer.found)}` : answer.found}</span></header>
        <Table caption="Volumes, largest first" columns={columnsOf(look, answer, name)} rows={answer.volumes.slice(0, listMost)} stale={stale} keyOf={(v) => `${v.src} ${v.sport} ${v.dst} ${v.dport} ${v.proto}`} />
      </section>
    </>
  );
}

/** The sum of all, with how it was scaled. */
function Total({ total, unread }: { total: TrafficVolume | undefined; unread: bigint }) {
  if (!total) return null;
  const words = scalingWords[total.scaling];
  return (
    <section class="panel traffic-total" aria-label="Total">
      <dl>
        <div><dt>Bytes</dt><dd>{estimateText(total, "bytes")}</dd></div>
        <div><dt>Packets</dt><dd>{estimateText(total, "packets")}</dd></div>
        <div><dt>Packets counted</dt><dd>{count(total.packets)}</dd></div>
      </dl>
      <p class="small soft"><Scaling scaling={total.scaling} /> {words?.long} Only flows that sessions measure are counted, where they arrive.</p>
      {unread > 0n && <p class="small bad-text">{count(unread)} packets are in the total only: there are too many flows to read them at once. Choose a coarser grouping or a shorter time.</p>}
    </section>
  );
}

function Scaling({ scaling }: { scaling: string }) {
  const words = scalingWords[scaling];
  return <span class={`badge ${scaling === "measured" ? "good" : scaling === "scaled" ? "busy" : "warning"}`} title={words?.long}>{words?.short ?? scaling}</span>;
}

function columnsOf(look: TrafficQuestion, answer: TrafficMatrixResponse, name: (text: string) => string): Column<TrafficVolume>[] {
  const all = answer.total ? estimate(answer.total, look.amount).value : 0;
  const protocols = look.protocols || look.by === "host-port" || look.by === "flow";
  const end = (text: string, port: number) => (port ? `${text.includes(":") ? `[${text}]` : name(text)}:${port}` : name(text));
  return [
    { key: "src", title: "Source", cell: (v) => end(v.src, v.sport) },
    { key: "dst", title: "Destination", cell: (v) => end(v.dst, v.dport) },
    ...(protocols ? [{ key: "proto", title: "Protocol", cell: (v: TrafficVolume) => v.proto || "–" }] : []),
    { key: "bytes", title: "Bytes", number: true, help: "IP bytes without marks, scaled by sampling", cell: (v) => <Figure volume={v} amount="bytes" /> },
    { key: "packets", title: "Packets", number: true, help: "Scaled by sampling", cell: (v) => <Figure volume={v} amount="packets" /> },
    { key: "share", title: "Share", number: true, help: `Of all ${look.amount}`, cell: (v) => share(all > 0 ? estimate(v, look.amount).value / all : undefined) },
    { key: "counted", title: "Packets counted", number: true, help: "Before scaling", cell: (v) => count(v.packets) },
    { key: "scaling", title: "Figures are", cell: (v) => <Scaling scaling={v.scaling} /> },
  ];
}

function Figure({ volume, amount }: { volume: TrafficVolume; amount: "bytes" | "packets" }) {
  const { value, error } = estimate(volume, amount);
  return <>{volume.scaling === "lower_bound" && "≥ "}{amountText(value, amount)}{error > 0 && <span class="small soft"> ± {amountText(error, amount)}</span>}</>;
}
