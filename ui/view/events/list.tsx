// Events by day.
import { useState } from "preact/hooks";
import { operates } from "../../data/account.ts";
import type { Happening } from "../../data/feed.ts";
import { kindOf, levelOf } from "../../data/kind.ts";
import { ago, clock, moment, unbroken } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import { Badge } from "../../part/badge.tsx";
import { Icon } from "../../part/icon.tsx";
import { dayWords, type Day, type Fold } from "./fold.ts";

// A link to a chart shows this much before and after the event.
const aroundMs = 5 * 60_000;

/** EventList shows events by day; those after a time are marked as new. */
export function EventList({ days, newSince }: { days: readonly Day[]; newSince: number }) {
  return (
    <div class="event-days">
      {days.map((day) => (
        <section key={day.start} aria-labelledby={`day-${day.start}`}>
          <h2 class="event-day" id={`day-${day.start}`}>{dayWords(day.start)}</h2>
          <ul class="event-list">
            {day.folds.map((fold) => <Row key={fold.at(-1)?.key} fold={fold} newSince={newSince} />)}
          </ul>
        </section>
      ))}
    </div>
  );
}

function Row({ fold, newSince }: { fold: Fold; newSince: number }) {
  const [open, setOpen] = useState(false);
  const [{ time, event }] = fold;
  const kind = kindOf(event.kind);
  const level = levelOf(event.level);
  const fresh = newSince > 0 && time > newSince;
  return (
    <li class={`event ${level}${fresh ? " fresh" : ""}`}>
      <Time time={time} />
      <div class="event-kind">
        <Icon name={kind.icon} />
        <span>{kind.label}</span>
        {level !== "info" && <Badge state={level} />}
        {fresh && <span class="event-new">new</span>}
      </div>
      <div class="event-text">
        <p>{unbroken(event.message)}</p>
        <Links happening={fold[0]} />
        {fold.length > 1 && (
          <button type="button" class="quiet event-fold" aria-expanded={open} onClick={() => setOpen(!open)}>
            <Icon name={open ? "up" : "down"} />{fold.length} times since {clock(fold.at(-1)?.time ?? time)}
          </button>
        )}
        {open && <ol class="event-repeats">{fold.slice(1).map((h) => <li key={h.key}><Time time={h.time} /> <span>{unbroken(h.event.message)}</span></li>)}</ol>}
      </div>
    </li>
  );
}

function Time({ time }: { time: number }) {
  return <time dateTime={new Date(time).toISOString()} title={`${moment(time)}, ${ago(time)}`}>{clock(time)}</time>;
}

/** Links to the hosts and the session of an event. */
function Links({ happening: { time, event: e } }: { happening: Happening }) {
  if (!e.agent && !e.session) return null;
  const pair = e.agent && e.peer;
  return (
    <p class="event-links">
      {pair && <a href={href(["pair", e.agent, e.peer], { from: Math.round(time - aroundMs), to: Math.round(time + aroundMs) })}>{e.agent} to {e.peer} at this time</a>}
      {[e.agent, e.peer].filter(Boolean).map((name) => <a key={name} href={href(["agent", name])}>{e.kind === "label-unapproved" && operates.value ? <>Approve on the page of {name}</> : <><span class="faint">agent</span> {name}</>}</a>)}
      {e.session && <a href={href(["sessions", e.session])}><span class="faint">session</span> {e.session}</a>}
    </p>
  );
}
