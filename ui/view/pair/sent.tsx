// What the senders of a pair did, on the time axis of the delays.
import { useMemo, useRef } from "preact/hooks";
import type { Line, Range } from "../../chart/plot.ts";
import { TimeChart } from "../../chart/time.tsx";
import { gridOf } from "../../data/columns.ts";
import type { Drawn } from "../../data/pair.ts";
import { count, duration, rate, share } from "../../data/quantity.ts";
import { resource, useResource } from "../../data/resource.ts";
import { askSent, sends, sentOf, type Sent } from "../../data/sent.ts";
import type { SeriesResponse } from "../../gen/data_pb.ts";
import type { Session } from "../../gen/session_pb.ts";
import { look } from "./look.ts";

interface SentProps {
  drawn: Drawn;
  live: boolean;
  source: string;
  destination: string;
  log: boolean;
  sessions: readonly Session[];
  onRange: (range: Range) => void;
}

/** SentPackets shows a panel for each direction in which packets were sent; nothing where no session sends. */
export function SentPackets(props: SentProps) {
  if (!props.sessions.some(sends)) return null;
  return (
    <>
      <Way {...props} colour="--out" />
      <Way {...props} source={props.destination} destination={props.source} colour="--back" />
    </>
  );
}

const refreshMs = 2000;

/** The last answer for what is drawn; an old one stays until the next has come. */
function useSent({ source, destination, drawn, live }: SentProps): SeriesResponse | undefined {
  const session = look.value.session;
  const now = useRef(drawn);
  now.current = drawn;
  const last = useRef<SeriesResponse | undefined>(undefined);
  const shown = live ? `${drawn.to - drawn.from}` : `${drawn.from} ${drawn.to}`;
  const answers = useMemo(() => resource(live ? Math.max(refreshMs, drawn.step) : 60_000, async (signal) => {
    const { from, to, step } = now.current;
    return (last.current = await askSent(source, destination, session, from, to, step, signal));
  }), [source, destination, session, drawn.step, live, shown]);
  return useResource(answers).value.value ?? last.current;
}

const dashes = [undefined, [6, 2], [2, 2]];

function Way(props: SentProps & { colour: string }) {
  const { drawn, source, destination, log, colour, onRange } = props;
  const answer = useSent(props);
  const step = Number(answer?.step?.seconds ?? 0) * 1000 + (answer?.step?.nanos ?? 0) / 1e6;
  const times = useMemo(() => (answer ? gridOf(drawn.from, drawn.to, step) : []), [answer, drawn]);
  const all = useMemo(() => (answer ? sentOf(answer, times, step) : []), [answer, times]);
  if (all.length === 0) return null;
  const lines = all.flatMap((s, i): Line[] => {
    const of = all.length > 1 ? ` (${i + 1})` : "";
    const dash = dashes[i % dashes.length];
    return [{ label: `median${of}`, values: s.p50, colour, width: 2, dash }, { label: `p99${of}`, values: s.p99, colour: "--clock", dash }];
  });
  return (
    <section class="panel">
      <TimeChart title={`Lateness of departures ${source} → ${destination}`} times={times} range={{ from: drawn.from, to: drawn.to }} lines={lines}
        format={duration} onRange={onRange} group="pair" height={220} scale={log ? "log" : "zero"} />
      {all.map((s, i) => <Figures key={`${s.session} ${s.traffic} ${s.mechanism}`} sent={s} number={all.length > 1 ? i + 1 : 0} />)}
    </section>
  );
}

/** The figures of one traffic over the shown range. */
function Figures({ sent: s, number }: { sent: Sent; number: number }) {
  const known = (n: number, text: (n: number) => string): string => (Number.isNaN(n) ? "–" : text(n));
  const figures = [
    { name: "Rate", text: known(s.rate, rate), help: "Achieved within trains, between their first and last packets." },
    { name: "Requested", text: known(s.asked, rate), help: "Rate of the schedule within trains; none if packets are sent as close as possible." },
    { name: "Lateness p50", text: known(s.lateness.p50, duration), help: "Departure minus scheduled departure: mean of the medians of the intervals." },
    { name: "Lateness p99", text: known(s.lateness.p99, duration), help: "Mean of the 99th percentiles of the intervals." },
    { name: "Sent", text: count(s.sent), help: "Packets handed to the network interface." },
    { name: "Late", text: s.sent > 0 ? share(s.late / s.sent) : "–", help: "Share of the packets sent that left later than the bound." },
    { name: "Failed", text: count(s.failed), help: "Packets that could not be sent, or exceeded a limit of the session." },
    ...(s.unsent > 0 ? [{ name: "Not sent", text: count(s.unsent), help: "Packets dropped because they were late, or cancelled when the session ended." }] : []),
    { name: "Mechanism", text: s.mechanism, help: "How packets wait for their departure." },
  ];
  return (
    <div class="pair-sent">
      <h3>{number > 0 && `(${number}) `}{s.traffic} <span class="faint small">session {s.session}</span></h3>
      <dl>{figures.map((f) => <div class="pair-figure" key={f.name} title={f.help}><dt>{f.name}</dt><dd>{f.text}</dd></div>)}</dl>
    </div>
  );
}
