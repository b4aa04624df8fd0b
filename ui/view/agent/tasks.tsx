// The tasks of a host, with their counters.
import type { Task } from "../../gen/agent_pb.ts";
import { limited } from "../../data/account.ts";
import { href } from "../../data/route.ts";
import { Badge } from "../../part/badge.tsx";
import { Counters } from "../sessions/tasks.tsx";

/** TasksPanel lists the host's tasks. */
export function TasksPanel({ tasks }: { tasks: readonly Task[] }) {
  return (
    <section class="panel" aria-labelledby="tasks-title">
      <header><h2 id="tasks-title">Tasks</h2></header>
      {tasks.length === 0 ? <p class="soft">{limited.value ? "The tasks of hosts are not visible with a limited token." : "This host has no tasks: no running session uses it."}</p> : (
        <div class="scroll-x">
          <table class="cards tasks">
            <thead><tr><th scope="col">Session</th><th scope="col">Role</th><th scope="col">Interface or target</th><th scope="col">State</th><th scope="col">Counters since the start</th></tr></thead>
            <tbody>{tasks.map((t) => <TaskRow key={`${t.session} ${t.role} ${t.device}`} task={t} />)}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function TaskRow({ task }: { task: Task }) {
  return (
    <tr>
      <td data-name="">{task.session ? <a href={href(["sessions", task.session])}>{task.session}</a> : <span class="soft">own configuration</span>}</td>
      <td data-name="Role">{task.role}</td>
      <td data-name="Interface or target">{task.device || "–"}</td>
      <td data-name="State"><Badge state={task.running ? "running" : "failed"} />{task.error && <p class="tone bad small">{task.error}</p>}{task.limit && <p class="small soft">{task.limit}</p>}</td>
      <td data-name="Counters" class="counters">{Object.values(task.counters).some((n) => n > 0n) ? <Counters task={task} /> : <span class="faint">none</span>}</td>
    </tr>
  );
}
