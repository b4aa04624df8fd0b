// What a host does for sessions, with its counters.
import type { Task } from "../../gen/agent_pb.ts";
import { count } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import { Badge } from "../../part/badge.tsx";
import { accountOf, type Account } from "./account.ts";

/** TasksPanel lists the host's parts of sessions. */
export function TasksPanel({ tasks }: { tasks: readonly Task[] }) {
  return (
    <section class="panel" aria-labelledby="tasks-title">
      <header><h2 id="tasks-title">Tasks</h2></header>
      {tasks.length === 0 ? <p class="soft">No running session needs this host.</p> : (
        <div class="scroll-x">
          <table class="cards tasks">
            <thead><tr><th scope="col">Session</th><th scope="col">Part</th><th scope="col">On</th><th scope="col">State</th><th scope="col">Counters since it began, packets</th></tr></thead>
            <tbody>{tasks.map((t) => <TaskRow key={`${t.session} ${t.role} ${t.device}`} task={t} />)}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function TaskRow({ task }: { task: Task }) {
  const account = accountOf(task.counters);
  return (
    <tr>
      <td data-name="">{task.session ? <a href={href(["sessions", task.session])}>{task.session}</a> : <span class="soft">by its own settings</span>}</td>
      <td data-name="Part">{task.role}</td>
      <td data-name="On">{task.device || "–"}</td>
      <td data-name="State"><Badge state={task.running ? "running" : "failed"} />{task.error && <p class="tone bad small">{task.error}</p>}</td>
      <td data-name="Counters" class="counters">{account ? <AccountWords account={account} counters={task.counters} /> : <Counters counters={task.counters} />}</td>
    </tr>
  );
}

function AccountWords({ account, counters }: { account: Account; counters: Record<string, bigint> }) {
  const { seen, marked, skipped, open } = account;
  const left = skipped.reduce((sum, s) => sum + s.packets, 0);
  return (
    <div>
      <p>seen <b>{count(seen)}</b> = marked <b>{count(marked)}</b> + left alone <b>{count(left)}</b>{" "}
        {open === 0 ? <span class="tone good">the account closes</span> : <span class="tone bad">{count(Math.abs(open))} {open > 0 ? "unaccounted for" : "too many"}</span>}</p>
      {skipped.length > 0 && <p class="soft small">left alone: {skipped.map((s) => `${count(s.packets)} ${s.reason}`).join("; ")}</p>}
      <Counters counters={Object.fromEntries(Object.entries(counters).filter(([name]) => !/^(seen|marked|skipped_.*)$/.test(name)))} />
    </div>
  );
}

function Counters({ counters }: { counters: Record<string, bigint> }) {
  const all = Object.entries(counters).sort(([a], [b]) => (a < b ? -1 : 1));
  if (all.length === 0) return <span class="faint">none</span>;
  return <p class="soft small">{all.map(([name, n]) => <span key={name} class="counter">{name.replaceAll("_", " ")} <b>{count(n)}</b></span>)}</p>;
}
