// Revoking and deleting a host: for administrators.
import { useState } from "preact/hooks";
import type { Agent } from "../../gen/agent_pb.ts";
import { may } from "../../data/account.ts";
import { agents } from "../../data/agents.ts";
import { agentClient, sentence } from "../../data/client.ts";
import { go } from "../../data/route.ts";

/** LeavePanel revokes a host, or deletes a revoked one. */
export function LeavePanel({ agent }: { agent: Agent }) {
  const [asked, setAsked] = useState(false);
  const [typed, setTyped] = useState("");
  const [fault, setFault] = useState("");
  const [busy, setBusy] = useState(false);
  if (!may("admin")) return null;
  const gone = agent.state === "revoked";
  const verb = gone ? "Delete" : "Revoke";
  const close = () => {
    setAsked(false);
    setTyped("");
    setFault("");
  };
  const act = async (event: Event) => {
    event.preventDefault();
    if (typed.trim() !== agent.name) return setFault(`Type ${agent.name} to confirm.`);
    setBusy(true);
    try {
      await (gone ? agentClient.deleteAgent({ name: agent.name }) : agentClient.revokeAgent({ name: agent.name }));
      await agents.refresh();
      if (gone) go([]);
      else close();
    } catch (e) {
      setFault(sentence(e));
    }
    setBusy(false);
  };
  return (
    <section class="panel" aria-labelledby="leave-title">
      <header class="spread">
        <h2 id="leave-title">{gone ? "Delete this host" : "Revoke this host"}</h2>
        {!asked && <button type="button" class="danger" onClick={() => setAsked(true)}>{verb}…</button>}
      </header>
      <p class="soft">{gone
        ? "Removes the host and frees its name. Its rows are kept."
        : "Bars the host from connecting; sessions continue without it. Its rows are kept. It can join again only after it has been deleted."}</p>
      {asked && (
        <form class="row confirm" onSubmit={act}>
          <label for="confirm">Type <strong>{agent.name}</strong> to confirm</label>
          <input id="confirm" value={typed} autocomplete="off" spellcheck={false} aria-describedby="confirm-fault" onInput={(e) => { setTyped(e.currentTarget.value); setFault(""); }} />
          <button class="danger" type="submit" disabled={busy}>{verb} {agent.name}</button>
          <button type="button" onClick={close}>Cancel</button>
          <p id="confirm-fault" class="field-fault" role="alert">{fault}</p>
        </form>
      )}
    </section>
  );
}
