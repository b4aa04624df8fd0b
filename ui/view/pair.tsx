// The traffic between two hosts: delay, loss and throughput in both directions.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Range } from "../chart/plot.ts";
import { picture } from "../chart/picture.ts";
import { fileName, save, windowsCsv } from "../data/csv.ts";
import { PairFeed, type Drawn } from "../data/pair.ts";
import { moment } from "../data/quantity.ts";
import { useReasons } from "../data/reasons.ts";
import { useResource } from "../data/resource.ts";
import { sessions } from "../data/sessions.ts";
import { lengthWords } from "../data/span.ts";
import type { Session } from "../gen/session_pb.ts";
import { shownBy, type Clock } from "../data/window.ts";
import { Notice } from "../part/notice.tsx";
import { useTitle } from "../part/title.ts";
import "../style/pair.css";
import { Charts } from "./pair/charts.tsx";
import { Controls } from "./pair/controls.tsx";
import { FiguresTable } from "./pair/figures.tsx";
import { TopFlows } from "./pair/flows.tsx";
import { useMarks } from "./pair/happened.ts";
import { InsideRouters } from "./pair/inside.tsx";
import { Head } from "./pair/head.tsx";
import { look, showSpan } from "./pair/look.ts";
import { SentPackets } from "./pair/sent.tsx";
import { Strip } from "./pair/strip.tsx";
import { measures, missingWords, Why } from "./pair/why.tsx";

/** PairView shows the pair in the address. */
export function PairView() {
  const { source, destination } = look.value;
  useTitle(`${source} → ${destination}`);
  if (!source || !destination || source === destination) {
    return <Notice title="No pair selected" action={<a class="button" href="#/">Go to the overview</a>}>The address of a pair contains two different hosts, as in #/pair/a/b. The overview links to every pair.</Notice>;
  }
  return <Between />;
}

/** A feed of the selection in the address. */
function useFeed(): PairFeed {
  const { selection, span, frozen, clock } = look.value;
  const feed = useMemo(() => new PairFeed(selection, clock === "corrected"), [JSON.stringify(selection), clock]);
  useEffect(() => () => feed.close(), [feed]);
  const spanKey = JSON.stringify(span);
  const before = useRef<{ feed: PairFeed; spanKey: string } | undefined>(undefined);
  useEffect(() => {
    const same = before.current?.feed === feed && before.current.spanKey === spanKey;
    before.current = { feed, spanKey };
    if (!same) feed.look(span, frozen);
    else if (frozen === undefined) feed.resume();
    else if (frozen === Math.round(feed.drawn.peek()?.to ?? 0)) feed.pause();
    else feed.look(span, frozen); // a link to another time
  }, [feed, spanKey, frozen]);
  return feed;
}

function Between() {
  const feed = useFeed();
  const { source, destination, span } = look.value;
  const length = useRef<number | undefined>(undefined);
  if (span.live) length.current = span.length;
  const mine = (useResource(sessions).value.value ?? []).filter((s) => measures(s, source, destination) || measures(s, destination, source));
  const out = feed.out.status.value;
  const back = feed.back.status.value;
  const measured = [...new Set([...out.sessions, ...back.sessions])];
  const charts = useRef<HTMLDivElement>(null);
  const names: [string, string] = [source, destination];
  const full = feed.full.value;
  const table = () => {
    const d = feed.drawn.peek();
    if (!d) return;
    const [from, to] = names;
    save(fileName("windows", from, to, d.from, d.to, "csv"), windowsCsv([
      { source: from, destination: to, windows: inside(d, d.out) }, { source: to, destination: from, windows: inside(d, d.back) },
    ], d.step));
  };
  const shot = async () => {
    const d = feed.drawn.peek();
    if (!d || !charts.current) return;
    const words = [`${moment(d.from)} – ${moment(d.to)}`, `one value per ${lengthWords(d.step)}`, look.value.clock === "corrected" && "delays corrected by the estimated clock offset", measured[0] && `session ${look.value.session || measured[0]}`];
    save(fileName("charts", source, destination, d.from, d.to, "png"), await picture(charts.current, `${source} ⇄ ${destination}`, words.filter(Boolean).join(", ")));
  };
  return (
    <div class="stack pair">
      <Head measured={measured} sessions={mine} full={full} onTable={table} onPicture={shot} />
      <Controls feed={feed} last={() => length.current} />
      <Sampled sampled={Math.max(out.sampled, back.sampled)} />
      <div ref={charts} class="stack"><Picture feed={feed} mine={mine} measured={[...new Set([...measured, ...mine.map((s) => s.spec?.name ?? "")])]} /></div>
      {full && <TopFlows drawn={() => feed.drawn.peek()} live={span.live && feed.paused.value === undefined} clock={look.value.clock} />}
    </div>
  );
}

const inside = (d: Drawn, list: Drawn["out"]): Drawn["out"] => list.filter((f) => f.start + d.step > d.from && f.start < d.to);

function Sampled({ sampled }: { sampled: number }) {
  if (sampled <= 1) return null;
  return <p class="soft small">Quantiles and heat map are sampled from one in {sampled} rows, because the range has too many. Counts, means and extremes are of all rows.</p>;
}

/** The windows with the delays that the switch selects. */
const shownAs = (clock: Clock, d: Drawn): Drawn => ({ ...d, out: d.out.map((f) => shownBy(clock, f)), back: d.back.map((f) => shownBy(clock, f)) });

/** The part that updates every second. */
function Picture({ feed, mine, measured }: { feed: PairFeed; mine: Session[]; measured: string[] }) {
  const { source, destination, span, show, log, clock } = look.value;
  const measuredWindows = feed.drawn.value;
  const drawn = useMemo(() => measuredWindows && shownAs(clock, measuredWindows), [measuredWindows, clock]);
  const marks = useMarks([source, destination], measured, drawn);
  const [open, setOpen] = useState(false);
  const statuses = [feed.out.status.value, feed.back.status.value];
  const fault = statuses.find((h) => h.fault)?.fault;
  const explained = [
    useReasons(source, destination, look.value.session, drawn?.out.length === 0),
    useReasons(destination, source, look.value.session, drawn?.back.length === 0),
  ] as const;
  const why = (fault?: string) => <Why source={source} destination={destination} explained={explained} fault={fault} onRetry={() => feed.retry()} />;
  const bare = !drawn || drawn.out.length + drawn.back.length === 0;
  if (!drawn || (bare && !fault && statuses.some((h) => !h.answered))) {
    if (fault) return why(fault);
    return <div class="panel pair-wait"><Notice title="Loading…" /></div>;
  }
  if (bare) return why(fault);
  const live = span.live && feed.paused.value === undefined;
  const missing = {
    out: drawn.out.length === 0 ? missingWords(explained[0], source, destination) : undefined,
    back: drawn.back.length === 0 ? missingWords(explained[1], destination, source) : undefined,
  };
  const onRange = (r: Range) => showSpan({ live: false, ...r });
  return (
    <>
      {fault && <p class="pair-fault" role="alert">The last query failed: {fault} The data shown may be out of date. Retrying.</p>}
      <Strip drawn={drawn} live={live} clock={clock} source={source} destination={destination} />
      <Charts drawn={drawn} source={source} destination={destination} show={show} log={log} clock={clock} marks={marks} onRange={onRange} missing={missing}>
        <SentPackets drawn={drawn} live={live} source={source} destination={destination} log={log} sessions={mine} onRange={onRange} />
        <InsideRouters drawn={drawn} live={live} source={source} destination={destination} log={log} sessions={mine} measured={measured} onRange={onRange} />
      </Charts>
      <FiguresTable drawn={drawn} names={[`${source} → ${destination}`, `${destination} → ${source}`]} clock={clock} open={open} onOpen={setOpen} />
    </>
  );
}
