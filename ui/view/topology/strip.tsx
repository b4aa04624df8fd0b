// Path changes on a timeline and as a list.
import { useState } from "preact/hooks";
import { changes, changesMost, span, spans, type Change, type Span } from "../../data/changes.ts";
import { ago, moment } from "../../data/quantity.ts";
import { useResource } from "../../data/resource.ts";
import { refine } from "../../data/route.ts";
import { pairName } from "../../data/topology.ts";
import { choosePath, type Choice } from "./choice.ts";

const bins = 96;
const firstRows = 20;

/** Changes in one bin of the strip, newest first. */
export interface Bin {
  index: number;
  changes: Change[];
}

/** Sorts changes into equal bins of a range; those outside are left out. */
function binned(list: Change[], from: number, to: number, pieces: number): Bin[] {
  const found = new Map<number, Change[]>();
  for (const change of list) {
    const index = Math.floor(((change.time - from) / (to - from)) * pieces);
    if (index < 0 || index >= pieces) continue;
    const here = found.get(index);
    if (here) here.push(change);
    else found.set(index, [change]);
  }
  return [...found].map(([index, of]) => ({ index, changes: of })).sort((a, b) => a.index - b.index);
}

/** Strip shows when paths changed. */
export function Strip({ choice }: { choice: Choice }) {
  useResource(changes);
  const [onlyPair, setOnlyPair] = useState(true);
  const { source, destination, at } = choice;
  const paired = source !== "" && destination !== "";
  const all = changes.value.value;
  const list = all?.filter((c) => !paired || !onlyPair || (c.path.source === source && c.path.destination === destination));
  const show = (c: Change): void => choosePath(c.path, Math.round(c.time));
  return (
    <section class="panel strip-panel" aria-labelledby="strip-title">
      <header>
        <h2 id="strip-title">Path changes</h2>
        <div class="segments" role="group" aria-label="Range of time">
          {(Object.keys(spans) as Span[]).map((s) => (
            <button key={s} type="button" aria-pressed={span.value === s} onClick={() => { span.value = s; void changes.refresh().then(changes.refresh); }}>{spans[s].label}</button>
          ))}
        </div>
        {paired && <label class="check"><input type="checkbox" checked={onlyPair} onChange={(e) => setOnlyPair(e.currentTarget.checked)} /> only {pairName(source, destination).replace(">", " to ")}</label>}
        {list && <span class="small soft">{list.length === 0 ? "none" : list.length === 1 ? "1 change" : `${list.length} changes`}{all && all.length >= changesMost ? `; only the newest ${changesMost} are shown` : ""}</span>}
      </header>
      {changes.fault.value && <p class="bad-text" role="alert">{changes.fault.value}</p>}
      {!list && !changes.fault.value && <p class="soft">Loading…</p>}
      {list && <Line list={list} at={at} show={show} />}
      {list && list.length === 0 && <p class="small soft">{paired && onlyPair ? "This path did not change in this period, or was not traced." : "No path changed in this period."} A change is reported when two consecutive traces show it.</p>}
      {list && list.length > 0 && <List list={list} at={at} show={show} />}
    </section>
  );
}

interface ListProps {
  list: Change[];
  at?: number;
  show: (c: Change) => void;
}

const chosen = (c: Change, at?: number): boolean => at !== undefined && Math.round(c.time) === at;

function Line({ list, at, show }: ListProps) {
  const to = Date.now();
  const from = to - spans[span.value].ms;
  const found = binned(list, from, to, bins);
  const most = Math.max(1, ...found.map((b) => b.changes.length));
  const ticks = Array.from({ length: 5 }, (_, i) => from + (i * (to - from)) / 4);
  return (
    <div class="change-strip">
      <div class="strip-line">
        {found.map(({ index, changes: here }) => {
          const newest = here[0];
          if (!newest) return null;
          const text = `${here.length === 1 ? "1 change" : `${here.length} changes`}, ${moment(newest.time)}`;
          return (
            <button key={index} type="button" class="strip-mark" tabIndex={-1} aria-hidden="true" title={`${text}: ${newest.message}`}
              data-on={here.some((c) => chosen(c, at))} style={{ left: `${(100 * index) / bins}%`, width: `${100 / bins}%`, height: `${35 + (65 * here.length) / most}%` }} onClick={() => show(newest)} />
          );
        })}
      </div>
      <div class="strip-ticks small faint" aria-hidden="true">{ticks.map((t, i) => <span key={i}>{i === 4 ? "now" : span.value === "24h" ? moment(t).slice(5, 16) : moment(t).slice(5, 10)}</span>)}</div>
    </div>
  );
}

function List({ list, at, show }: ListProps) {
  const [rows, setRows] = useState(firstRows);
  return (
    <div class="strip-list">
      <ol aria-label="Path changes, newest first">
        {list.slice(0, rows).map((c) => (
          <li key={`${c.time} ${c.message}`}>
            <button type="button" class="change" aria-pressed={chosen(c, at)} onClick={() => (chosen(c, at) ? refine({ at: undefined }) : show(c))}>
              <span class="change-time" title={ago(c.time)}>{moment(c.time)}</span>
              <span><strong>{c.path.source} to {c.path.destination || c.path.address}</strong> <span class="small faint">{c.path.address}, {c.path.protocol}</span><br /><span class="small">{c.message.split(" changed: ").at(-1)}</span></span>
            </button>
          </li>
        ))}
      </ol>
      {list.length > rows && <button type="button" class="quiet" onClick={() => setRows(rows + 100)}>Show more ({list.length - rows})</button>}
    </div>
  );
}
