// Service levels of a month: each pair of hosts beside the targets of a service, with links to the report as a file.
import { useState } from "preact/hooks";
import { limited } from "../data/account.ts";
import { sentence } from "../data/client.ts";
import { save } from "../data/csv.ts";
import { countLevels, downloadLevels, monthRange, monthWords, quantileName, type LevelQuestion } from "../data/levels.ts";
import { count, duration, ratio } from "../data/quantity.ts";
import { route } from "../data/route.ts";
import { Icon } from "../part/icon.tsx";
import { Notice } from "../part/notice.tsx";
import { useTitle } from "../part/title.ts";
import "../style/levels.css";
import { Bar } from "./levels/bar.tsx";
import { questionOf } from "./levels/look.ts";
import { useLevels, type Read } from "./levels/read.ts";
import { LevelTable } from "./levels/table.tsx";

/** LevelsView compares a month with targets. */
export function LevelsView() {
  const question = questionOf(route.value);
  const [turn, setTurn] = useState(0);
  const read = useLevels(question, turn);
  useTitle("Service levels");
  return (
    <div class="stack levels">
      <header class="row spread">
        <h1>Service levels</h1>
        <Files question={question} disabled={!read.done || read.levels.length === 0} />
      </header>
      <Bar question={question} />
      {read.fault && <Notice title="Could not read the service levels" level="error" action={<button type="button" onClick={() => setTurn(turn + 1)}>Try again</button>}>{read.fault}</Notice>}
      <Answer read={read} question={question} />
    </div>
  );
}

function Answer({ read, question }: { read: Read; question: LevelQuestion }) {
  const { levels, found, until, done, fault } = read;
  const judged = question.availability > 0 || question.loss > 0 || question.delayNs > 0;
  if (levels.length === 0 && done) {
    return fault ? null : <Notice title={`No packets were measured in ${monthWords(question.month)}`}>Service levels are of packets that sessions mark between hosts{question.scope.length > 0 ? `, here of ${question.scope.join(", ")}` : ""}{limited.value ? ", and of those that this token sees" : ""}, in minutes that are over. Choose another month, or other hosts.</Notice>;
  }
  if (levels.length === 0) return <p class="soft" role="status">Loading… The server reads every minute of the month.</p>;
  const counts = countLevels(levels);
  return (
    <>
      <section class="panel level-sums" aria-label="Summary">
        <dl>
          <div><dt>Pairs, one way each</dt><dd>{count(levels.length)}{found > levels.length && <span class="small soft"> {done ? "with most packets, " : ""}of {count(found)}</span>}</dd></div>
          {judged && (["met", "missed", "undecided"] as const).map((v) => <div key={v}><dt>{sums[v]}</dt><dd class={counts[v] > 0 ? `level-${v}` : "faint"}>{count(counts[v])}</dd></div>)}
          {targetsOf(question).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
        </dl>
        <p class="small soft" role="status">{!done ? `Reading pair ${count(levels.length + 1)} of ${count(found)}…` : until ? `${monthWords(question.month)}${until < (monthRange(question.month)?.[1] ?? 0) ? " so far" : ""}, until ${new Date(until).toISOString().slice(0, 16).replace("T", " ")} UTC. Intervals have a confidence of 95 %.` : ""}
          {done && !judged && " There are no targets, so that there are no verdicts."}</p>
      </section>
      <section class="panel" aria-labelledby="level-rows">
        <h2 id="level-rows">Pairs</h2>
        <LevelTable levels={levels} question={question} stale={!done} />
        <Explanation outage={question.outage} />
      </section>
    </>
  );
}

const sums = { met: "Meet all targets", missed: "Miss a target", undecided: "Have one undecided" };

function targetsOf(q: LevelQuestion): [string, string][] {
  const all: [string, number, string][] = [
    ["Availability, at least", q.availability, ratio(q.availability, 3)], [`Delay ${quantileName(q.quantile)}, at most`, q.delayNs, duration(q.delayNs)], ["Loss, at most", q.loss, ratio(q.loss, 3)],
  ];
  return all.filter(([, target]) => target > 0).map(([name, , text]) => [name, text]);
}

/** Files downloads the report as the server writes it. */
function Files({ question, disabled }: { question: LevelQuestion; disabled: boolean }) {
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<string>();
  const get = async (format: "html" | "csv"): Promise<void> => {
    setBusy(true);
    setFault(undefined);
    try {
      save(`service-levels-${question.month}.${format}`, await downloadLevels(format, question));
    } catch (e) {
      setFault(sentence(e));
    }
    setBusy(false);
  };
  return (
    <div class="row">
      {fault && <span class="small bad-text" role="alert">{fault}</span>}
      <button type="button" disabled={disabled || busy} title="One file, for a browser or for printing" onClick={() => void get("html")}><Icon name="download" />Report (HTML)</button>
      <button type="button" disabled={disabled || busy} onClick={() => void get("csv")}><Icon name="download" />CSV</button>
    </div>
  );
}

function Explanation({ outage }: { outage: number }) {
  return (
    <details class="level-help">
      <summary>How to read this</summary>
      <p>A minute is <b>down</b> if more than {ratio(outage, 1)} of its packets are lost, otherwise up. Availability is the share of minutes with traffic that are up. Nothing is known about minutes without traffic, which count neither way.</p>
      <p>Below delay and loss is the interval (95 %), which needs 10 blocks of time with packets. What was sampled are whole days, or shorter blocks if there are few, because packets of one time depend on each other; the interval of the delay includes the errors of both clocks. A target is met or missed if the whole interval is on one side of it, otherwise undecided: what was measured does not show it.</p>
    </details>
  );
}
