// Events, newest first.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { limited, who } from "../data/account.ts";
import { save } from "../data/csv.ts";
import { Feed, type Happening } from "../data/feed.ts";
import { moment } from "../data/quantity.ts";
import { see, seen } from "../data/seen.ts";
import { Icon } from "../part/icon.tsx";
import { Notice } from "../part/notice.tsx";
import { useTitle } from "../part/title.ts";
import "../style/events.css";
import { Bar } from "./events/bar.tsx";
import { binsOf } from "./events/bins.ts";
import { choice, chooseAll, choosePart, filters, matching, periodOf, type Choice } from "./events/choice.ts";
import { firstOf, foldDays } from "./events/fold.ts";
import { EventList } from "./events/list.tsx";
import { Strip } from "./events/strip.tsx";
import { eventsCsv } from "./events/table.ts";

const pageRows = 200; // rows drawn at once
const readingPx = 120; // scrolled this far, the user is reading

/** EventsView shows events as they happen, without moving the list under the reader. */
export function EventsView() {
  const c = choice.value;
  const key = c.part ? `${c.part.from}-${c.part.to}` : c.range.key;
  const feed = useMemo(() => new Feed(periodOf(c)), [key]);
  useEffect(() => () => feed.close(), [feed]);
  const [newSince] = useState(() => seen.peek());
  const list = useRef<HTMLDivElement>(null);
  const { shown, waiting, release } = useCalm(feed, list);
  const found = useMemo(() => matching(shown ?? [], c), [shown, c]);
  const fresh = useMemo(() => matching(waiting, c).length, [waiting, c]);
  const news = fresh === 1 ? "1 new event" : `${fresh} new events`;
  useEffect(() => {
    const newest = feed.events.value?.[0]?.time;
    if (newest !== undefined && !document.hidden) see(newest);
  }, [feed.events.value]);
  useTitle("Events");
  return (
    <div class="stack events">
      <header class="row spread">
        <h1>Events</h1>
        <button type="button" disabled={!found.length} onClick={() => save(`events-${moment(Date.now()).replace(/[ :]/g, "-")}.csv`, eventsCsv(found))}><Icon name="download" />Export CSV</button>
      </header>
      <Bar choice={c} all={shown ?? []} />
      {shown && <Timeline found={found} feed={feed} />}
      <p class="hidden-text" role="status">{fresh > 0 ? news : ""}</p>
      {fresh > 0 && <button type="button" class="main event-more" onClick={() => { release(); window.scrollTo({ top: 0 }); }}><Icon name="up" />{news}</button>}
      {feed.fault.value && shown && <p class="field-fault" role="alert">{feed.fault.value} Retrying.</p>}
      <div ref={list}><Found feed={feed} choice={c} found={shown && found} newSince={newSince} /></div>
    </div>
  );
}

function Timeline({ found, feed }: { found: Happening[]; feed: Feed }) {
  // The strip advances with each event, and once a minute without any.
  const [minute, setMinute] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setMinute((m) => m + 1), 60_000);
    return () => clearInterval(timer);
  }, []);
  const bins = useMemo(() => binsOf(found, feed.from, feed.to), [found, feed, minute]);
  return found.length > 0 ? <Strip bins={bins} onPart={choosePart} /> : null;
}

function Found({ feed, choice: c, found, newSince }: { feed: Feed; choice: Choice; found: Happening[] | undefined; newSince: number }) {
  const [rows, setRows] = useState(pageRows);
  useEffect(() => setRows(pageRows), [c]);
  const days = useMemo(() => foldDays(found ?? []), [found]);
  const folds = days.reduce((n, d) => n + d.folds.length, 0);
  const span = c.part ? "the selected period" : c.range.words;
  if (!found) {
    return feed.fault.value
      ? <Notice title="Could not load events" level="error">{feed.fault.value} Retrying.</Notice>
      : <p class="soft" role="status">Loading events…</p>;
  }
  if (!found.length) {
    return filters(c) && feed.events.value?.length
      ? <Notice title="No matching events" action={<button type="button" onClick={chooseAll}>Show all events</button>}>None of the {feed.events.value.length} events in {span} matches the filter.</Notice>
      : limited.value ? <Notice title="No events">No event in {span} of the hosts and pairs that the token {who.value?.name} sees. Changes of paths are not visible with it.</Notice>
      : <Notice title="No events">No events in {span}: no host was lost, no path changed, and no loss exceeded its threshold.</Notice>;
  }
  return (
    <>
      <EventList days={firstOf(days, rows)} newSince={newSince} />
      <p class="row event-end">
        {folds > rows && <button type="button" onClick={() => setRows(rows + pageRows)}>Show {Math.min(pageRows, folds - rows)} more</button>}
        {folds <= rows && feed.cut.value && <><span class="soft">Only the newest 10,000 events of {span} are loaded.</span><button type="button" disabled={feed.busy.value} onClick={() => void feed.older()}>{feed.busy.value ? "Loading…" : "Load older events"}</button></>}
        {folds <= rows && !feed.cut.value && <span class="soft small">End of {filters(c) ? "matching events" : "events"} in {span}.</span>}
      </p>
    </>
  );
}

/** The events shown while the user reads: new ones wait until they may move the list. */
function useCalm(feed: Feed, list: { current: HTMLElement | null }): { shown: Happening[] | undefined; waiting: Happening[]; release: () => void } {
  const latest = feed.events.value;
  const held = useRef<{ feed: Feed; shown: Happening[] | undefined }>({ feed, shown: undefined });
  const [, redraw] = useState(0);
  if (held.current.feed !== feed) held.current = { feed, shown: undefined };
  const before = held.current.shown;
  const newest = before?.[0]?.time ?? -Infinity;
  const box = list.current;
  const reading = before?.length && box && (scrollY > readingPx || box.matches(":hover") || box.contains(document.activeElement));
  if (!reading) held.current.shown = latest;
  else if (latest && before !== latest) {
    // Older events, such as those loaded at the end, are shown immediately.
    const known = new Set(before.map((h) => h.key));
    const older = latest.filter((h) => h.time <= newest || known.has(h.key));
    if (older.length !== before.length) held.current.shown = older;
  }
  const shown = held.current.shown;
  const waiting = useMemo(() => {
    const known = new Set(shown?.map((h) => h.key));
    return (latest ?? []).filter((h) => !known.has(h.key));
  }, [latest, shown]);
  const release = (): void => {
    held.current.shown = feed.events.peek();
    redraw((n) => n + 1);
  };
  return { shown, waiting, release };
}
