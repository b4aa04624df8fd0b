// The counters of a task as a closed account: what was seen is what was done with it.
import type { Task } from "../gen/agent_pb.ts";

/** One line of an account: a total and its parts, which add up to it. */
export interface Account {
  total: { label: string; n: number };
  parts: { label: string; n: number }[];
  /** What the parts leave; counters are read one after the other while packets pass. */
  rest: number;
}

const words = (name: string): string => name.replaceAll("_", " ");

function account(total: string, n: number, parts: { label: string; n: number }[]): Account {
  return { total: { label: total, n }, parts, rest: n - parts.reduce((sum, p) => sum + p.n, 0) };
}

/** The accounts of a task, and the counters that belong to none. */
export function accountsOf(task: Task): { accounts: Account[]; others: { label: string; n: number }[] } {
  const left = new Map(Object.entries(task.counters).map(([k, v]) => [k, Number(v)]));
  const take = (name: string): number => {
    const n = left.get(name) ?? 0;
    left.delete(name);
    return n;
  };
  const accounts: Account[] = [];
  if (task.role === "source" && left.has("seen")) {
    const seen = take("seen");
    const parts = [{ label: "marked", n: take("marked") }];
    for (const key of [...left.keys()].filter((k) => k.startsWith("skipped_")).sort()) parts.push({ label: `left alone: ${words(key.slice(8))}`, n: take(key) });
    accounts.push(account("packets seen", seen, parts));
  }
  if (task.role === "destination" && left.has("expected")) {
    const expected = take("expected");
    const lost = take("lost");
    const [packets, duplicated] = [take("packets"), take("duplicated")];
    accounts.push(account("packets expected", expected, [{ label: "came", n: expected - lost }, { label: "lost", n: lost }]));
    accounts.push(account("marked packets that came", packets, [{ label: "once", n: packets - duplicated }, { label: "once more", n: duplicated }]));
  }
  if (task.role === "router" && left.has("seen")) {
    const seen = take("seen");
    const parts = ["forwarded", "dropped", "local", "merged", "lost", "in_flight"].map((name) => ({ label: words(name), n: take(name) }));
    accounts.push(account("packets seen", seen, parts.filter((p, i) => i === 0 || p.n > 0)));
  }
  return { accounts, others: [...left].map(([k, n]) => ({ label: words(k), n })).sort((a, b) => a.label.localeCompare(b.label)) };
}
