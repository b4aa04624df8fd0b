// Runs of one session: planned ones, and past ones with their results.
import { useMemo, useState } from "preact/hooks";
import { spanWords } from "../../data/length.ts";
import { count, duration, moment, share } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import { resource, useResource } from "../../data/resource.ts";
import { began, resultOf } from "../../data/runs.ts";
import { millis } from "../../data/time.ts";
import { lossIn, type Figures } from "../../data/window.ts";
import type { Pair, Run } from "../../gen/session_pb.ts";
import { Badge } from "../../part/badge.tsx";

const page = 10;
const emptyMs = 2000; // until the next query where there is no result yet
const refreshMs = 10_000; // between queries about a run in progress
const idleMs = 3600e3;

/** What a run measured; null: nothing. */
type Result = Figures | null;

/** RunHistory lists planned runs and past runs with their results. */
export function RunHistory({ pairs, runs }: { pairs: readonly Pair[]; runs: readonly Run[] }) {
  const [shown, setShown] = useState(page);
  const planned = runs.filter((r) => r.state === "planned");
  const past = runs.filter((r) => r.state !== "planned").reverse();
  return (
    <section class="panel" aria-labelledby="runs-title">
      <header><h2 id="runs-title">Runs</h2><span class="faint">previous and next 7 days</span><a class="small" href={href(["sessions"], { show: "runs" })}>Calendar</a></header>
      {planned.length > 0 && <Planned runs={planned} />}
      {past.length === 0 ? <p class="soft">{planned.length > 0 ? "None has started yet." : "No runs in this period."}</p> : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Past runs">
          <table>
            <thead><tr><th scope="col">Started</th><th scope="col">State</th><th scope="col" class="number">Length</th><th scope="col" class="number">Packets</th><th scope="col" class="number">Loss</th><th scope="col" class="number">Median</th><th scope="col" class="number">p99</th><th scope="col">Charts</th></tr></thead>
            <tbody>{past.slice(0, shown).map((r) => <PastRun key={`${millis(r.start)}${r.state}`} run={r} pairs={pairs} />)}</tbody>
          </table>
        </div>
      )}
      {past.length > shown && <button type="button" onClick={() => setShown(shown + page)}>Show {Math.min(page, past.length - shown)} of {past.length - shown} more</button>}
    </section>
  );
}

function Planned({ runs }: { runs: Run[] }) {
  const one = (r: Run) => {
    const [start = 0, end] = [millis(r.start), millis(r.end)];
    return <li key={start}>{moment(start)} <span class="soft">{end === undefined ? "until stopped" : `for ${spanWords((end - start) * 1e6)}`}</span></li>;
  };
  return (
    <div class="planned">
      <h3>{runs.length === 1 ? "Planned" : `${runs.length} planned`}</h3>
      <ul>{runs.slice(0, 3).map(one)}</ul>
      {runs.length > 3 && <details><summary>{runs.length - 3} more</summary><ul>{runs.slice(3, 103).map(one)}</ul></details>}
    </div>
  );
}

/** Results of finished runs, which no longer change. */
const known = new Map<string, Result>();

function useResult(run: Run): { result: Result | undefined; fault: string | undefined } {
  const key = `${run.session} ${millis(run.start)} ${millis(run.end)} ${run.state}`;
  const asked = useMemo(() => resource<Result | undefined>((last) => (!began(run) || known.has(key) ? idleMs : last?.packets ? refreshMs : emptyMs), async (signal) => {
    if (!began(run) || known.has(key)) return known.get(key);
    const result = (await resultOf(run, signal)) ?? null;
    // The agents' last rows arrive some seconds after the end.
    if (run.state === "done" && Date.now() - (millis(run.end) ?? 0) > 60_000) known.set(key, result);
    return result;
  }), [key]);
  const { value, fault } = useResource(asked);
  return { result: value.value === undefined ? known.get(key) : value.value, fault: fault.value };
}

function PastRun({ run, pairs }: { run: Run; pairs: readonly Pair[] }) {
  const { result, fault } = useResult(run);
  const [start = 0, end = Date.now()] = [millis(run.start), millis(run.end)];
  const sources = pairs.slice(0, 4);
  return (
    <tr>
      <th scope="row" class="when">{moment(start)}</th>
      <td><Badge state={run.state} />{run.reason && <span class="small soft block">{run.reason}</span>}</td>
      <td class="number">{!began(run) ? "–" : duration((Math.min(end, Date.now()) - start) * 1e6)}</td>
      {!began(run) ? <td colSpan={4} class="soft">nothing measured</td>
        : result === undefined ? <td colSpan={4} class="soft">{fault ? `unknown: ${fault}` : "loading…"}</td>
        : !result?.expected && !result?.packets ? <td colSpan={4} class="soft">{run.state === "running" ? "no marked packets yet" : "no marked packets received"}</td>
        : (
          <>
            <td class="number">{count(result.packets)}</td>
            <td class="number">{share(lossIn(result))}</td>
            <td class="number">{duration(result.delay.p50)}</td>
            <td class="number">{duration(result.delay.p99)}</td>
          </>
        )}
      <td class="session-charts">
        {began(run) && sources.map((p) => <a key={`${p.source} ${p.destination}`} href={href(["pair", p.source, p.destination], { session: run.session, from: Math.floor(start), to: Math.ceil(Math.min(end, Date.now())) })}>{p.source} → {p.destination}</a>)}
        {began(run) && pairs.length > 4 && <span class="soft small">and {pairs.length - 4} more</span>}
      </td>
    </tr>
  );
}
