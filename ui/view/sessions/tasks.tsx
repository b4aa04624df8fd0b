// What the agents do for a session, with their counters.
import { limited } from "../../data/account.ts";
import { accountsOf, type Account } from "../../data/tally.ts";
import { bytes, count } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import type { Task } from "../../gen/agent_pb.ts";
import type { Session } from "../../gen/session_pb.ts";
import { Badge } from "../../part/badge.tsx";

const many = 40;

/** Tasks lists the tasks of a session by agent. */
export function Tasks({ session }: { session: Session }) {
  if (limited.value) return null; // they would name other hosts
  const tasks = session.tasks.slice(0, many);
  return (
    <section class="panel" aria-labelledby="tasks-title">
      <header><h2 id="tasks-title">Tasks</h2><span class="faint">{session.tasks.length}</span></header>
      {tasks.length === 0 && <p class="soft">No agent has reported a task.</p>}
      <ul class="session-tasks">{tasks.map((t) => <TaskItem key={`${t.agent} ${t.role} ${t.device}`} task={t} />)}</ul>
      {session.tasks.length > many && <p class="soft">{session.tasks.length - many} more; the page of each agent lists its tasks.</p>}
    </section>
  );
}

function TaskItem({ task }: { task: Task }) {
  return (
    <li>
      <div class="row"><a href={href(["agent", task.agent])}>{task.agent}</a> <span>{task.role}{task.device && <span class="soft"> {task.role === "trace" ? "to" : "on"} {task.device}</span>}</span> <Badge state={task.error ? "error" : task.running ? "running" : "starting"} /></div>
      {task.error && <p class="field-fault">{task.error}</p>}
      {task.limit && <p class="small soft">{task.limit}</p>}
      <Counters task={task} />
    </li>
  );
}

/** Counters shows the counters of a task, as accounts where they add up. */
export function Counters({ task }: { task: Task }) {
  const { accounts, others } = accountsOf(task);
  return (
    <>
      {accounts.map((a) => <AccountLine key={a.total.label} account={a} />)}
      {others.length > 0 && <p class="small soft">{others.map((o) => `${o.label} ${o.label.includes("bytes") ? bytes(o.n) : count(o.n)}`).join(", ")}</p>}
    </>
  );
}

function AccountLine({ account: a }: { account: Account }) {
  return (
    <p class="account">
      <b>{count(a.total.n)}</b> {a.total.label} = {a.parts.map((p, i) => <span key={p.label}>{i > 0 && " + "}<b>{count(p.n)}</b> {p.label}</span>)}
      {a.rest !== 0 && <span class="soft"> {a.rest > 0 ? "+" : "−"} {count(Math.abs(a.rest))} passed while the counters were read</span>}
    </p>
  );
}
