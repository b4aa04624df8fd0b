// Runs of all sessions in a week, as a calendar or a list.
import { useEffect, useMemo, useState } from "preact/hooks";
import { layout, weekOf, blocks, type Block, type Placed } from "../../data/calendar.ts";
import { spanWords } from "../../data/length.ts";
import { moment } from "../../data/quantity.ts";
import { href, refine, route } from "../../data/route.ts";
import { useResource } from "../../data/resource.ts";
import { runsIn } from "../../data/runs.ts";
import { weekdays } from "../../data/cron.ts";
import { ownZone } from "../../data/zone.ts";
import { Badge } from "../../part/badge.tsx";
import { Icon } from "../../part/icon.tsx";
import { Notice } from "../../part/notice.tsx";

const dayText = (ms: number): string => moment(ms).slice(0, 10);
const timeText = (ms: number): string => moment(ms).slice(11, 16);
const hourHeight = 32;

function useNow(): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 15_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

function useNarrow(): boolean {
  const query = useMemo(() => matchMedia("(max-width: 760px)"), []);
  const [narrow, setNarrow] = useState(query.matches);
  useEffect(() => {
    const change = (): void => setNarrow(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, [query]);
  return narrow;
}

/** RunsView shows the runs of the week in the address. */
export function RunsView() {
  const now = useNow();
  const narrow = useNarrow();
  const asked = Date.parse(`${route.value.query.get("week") ?? ""}T12:00`);
  const days = weekOf(Number.isNaN(asked) ? now : asked);
  const [from = 0, to = 0] = [days[0], days[7]];
  const { value, fault } = useResource(useMemo(() => runsIn(from, to), [from, to]));
  const asList = narrow || route.value.query.get("as") === "list";
  const step = (weeks: number): void => refine({ week: dayText(weekOf(from, weeks)[0] ?? from) });
  const runs = value.value;
  return (
    <section class="panel calendar" aria-labelledby="week-title">
      <header class="spread">
        <div class="row tight">
          <button type="button" class="icon-only" aria-label="Previous week" title="Previous week" onClick={() => step(-1)}><Icon name="left" /></button>
          <button type="button" onClick={() => refine({ week: undefined })}>Today</button>
          <button type="button" class="icon-only" aria-label="Next week" title="Next week" onClick={() => step(1)}><Icon name="right" /></button>
          <h2 id="week-title" aria-live="polite">{dayText(from)} to {dayText((days[7] ?? 0) - 1)}</h2>
        </div>
        <div class="row tight">
          <span class="small soft">Times in {ownZone()}</span>
          {!narrow && (
            <div class="row tight" role="group" aria-label="Show as">
              <button type="button" class="small-button" aria-pressed={!asList} onClick={() => refine({ as: undefined })}>Calendar</button>
              <button type="button" class="small-button" aria-pressed={asList} onClick={() => refine({ as: "list" })}>List</button>
            </div>
          )}
        </div>
      </header>
      {fault.value && <p class="field-fault" role="alert">The runs are out of date: {fault.value}</p>}
      {runs?.length === 0 && <Notice title="No runs this week">Scheduled and past runs of sessions appear here.</Notice>}
      {!runs && !fault.value && <p class="soft">Loading…</p>}
      {runs && runs.length > 0 && (asList ? <RunList all={blocks(runs)} days={days} now={now} /> : <WeekGrid week={layout(runs, days, now)} now={now} />)}
    </section>
  );
}

function lengthText(b: Block): string {
  if (b.end === undefined) return "until stopped";
  return b.state === "missed" || b.state === "failed" ? "" : `until ${dayText(b.end) === dayText(b.start) ? timeText(b.end) : moment(b.end).slice(0, 16)}`;
}

/** A block as one line of text. */
function story(b: Block): string {
  return [`${b.runs > 1 ? `${b.runs} runs of ` : ""}${b.session}`, b.state, `${moment(b.start).slice(0, 16)} ${lengthText(b)}`.trim(), b.reason].filter(Boolean).join(", ");
}

function WeekGrid({ week, now }: { week: ReturnType<typeof layout>; now: number }) {
  const today = week.days.findLastIndex((d) => d <= now);
  const shownNow = now < (week.days[7] ?? 0) && today >= 0;
  return (
    <div class="week scroll-x" tabIndex={0} role="region" aria-label="Week">
      <div class="week-inner">
        <div class="week-heads">{week.days.slice(0, 7).map((d, i) => <div key={d} class={shownNow && i === today ? "today" : ""}>{weekdays[i]?.short} <span class="faint">{dayText(d).slice(5)}</span></div>)}</div>
        {week.bars.length > 0 && (
          <div class="week-bars" style={{ gridTemplateRows: `repeat(${week.lanes}, 24px)` }}>
            {week.bars.map((b) => (
              <a key={`${b.block.session} ${b.block.start}`} class={`run-block ${b.block.state}`} href={href(["sessions", b.block.session])} title={story(b.block)}
                style={{ gridColumn: `${b.from + 1} / ${b.to + 1}`, gridRow: String(b.lane + 1) }}>
                <span class="hidden-text">{story(b.block)}</span>
                <span aria-hidden="true">{b.before && "‹ "}{b.block.session} <span class="small">{b.block.state}</span>{b.after && " ›"}</span>
              </a>
            ))}
          </div>
        )}
        <div class="week-days" style={{ height: `${24 * hourHeight}px` }}>
          <div class="week-hours" aria-hidden="true">{[3, 6, 9, 12, 15, 18, 21].map((h) => <span key={h} style={{ top: `${h * hourHeight}px` }}>{`${h}:00`.padStart(5, "0")}</span>)}</div>
          {week.placed.map((all, i) => (
            <div key={i} class={`week-day ${shownNow && i === today ? "today" : ""}`} role="list" aria-label={weekdays[i]?.name}>
              {all.map((p) => <DayBlock key={`${p.block.session} ${p.block.start} ${p.block.state}`} p={p} />)}
              {shownNow && i === today && <div class="week-now" style={{ top: `${(24 * hourHeight * (now - (week.days[i] ?? 0))) / ((week.days[i + 1] ?? 1) - (week.days[i] ?? 0))}px` }} />}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

function DayBlock({ p }: { p: Placed }) {
  const b = p.block;
  const box = { top: `${100 * p.top}%`, height: `calc(${100 * p.height}% - 1px)`, left: `${(100 * p.column) / p.columns}%`, width: `calc(${100 / p.columns}% - 2px)` };
  return (
    <div role="listitem" class="block-place" style={box}>
      <a class={`run-block ${b.state} ${p.height > 0.08 ? "tall" : ""}`} href={href(["sessions", b.session])} title={story(b)}>
        <span class="hidden-text">{story(b)}</span>
        <span aria-hidden="true">{b.runs > 1 && `${b.runs} × `}{b.session}{(b.state === "missed" || b.state === "failed") && ` ${b.state}`} <span class="block-time">{timeText(b.start)}</span></span>
      </a>
    </div>
  );
}

function RunList({ all, days, now }: { all: Block[]; days: number[]; now: number }) {
  const first = days[0] ?? 0;
  const byDay = days.slice(0, 7).map((d, i) => ({ day: d, name: weekdays[i]?.name ?? "", list: all.filter((b) => Math.max(b.start, first) >= d && Math.max(b.start, first) < (days[i + 1] ?? 0)) }));
  return (
    <div class="run-list">
      {byDay.filter((d) => d.list.length > 0).map((d) => (
        <section key={d.day} aria-label={d.name}>
          <h3>{d.name} <span class="faint">{dayText(d.day)}{d.day <= now && now < d.day + 86_400_000 ? ", today" : ""}</span></h3>
          <ul>
            {d.list.map((b) => (
              <li key={`${b.session} ${b.start} ${b.state}`}>
                <span class="run-time">{b.start < d.day ? "earlier" : timeText(b.start)}</span>
                <span><a href={href(["sessions", b.session])}>{b.session}</a> <Badge state={b.state} />
                  <span class="small soft block">{[b.runs > 1 && `${b.runs} runs`, lengthText(b), b.end !== undefined && b.runs === 1 && b.end > b.start && lengthText(b) && spanWords(Math.round((b.end - b.start) / 1000) * 1e9), b.reason].filter(Boolean).join(", ")}</span></span>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  );
}
