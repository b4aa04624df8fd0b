// The labels of a host: operators edit, approve and withdraw them.
import { useState } from "preact/hooks";
import type { Agent } from "../../gen/agent_pb.ts";
import { operates } from "../../data/account.ts";
import { agents } from "../../data/agents.ts";
import { agentClient, sentence } from "../../data/client.ts";
import { approve, labelsByOrigin, labelText, replacement, type Label } from "../../data/labels.ts";
import { Dialog } from "../../part/dialog.tsx";
import { Icon } from "../../part/icon.tsx";

/** LabelsPanel shows labels with their origins. */
export function LabelsPanel({ agent }: { agent: Agent }) {
  const [edit, setEdit] = useState(false);
  const all = labelsByOrigin(agent);
  const [selecting, claimed] = [all.filter((l) => l.origin !== "claimed"), all.filter((l) => l.origin === "claimed")];
  const changes = operates.value && agent.state !== "revoked";
  return (
    <section class="panel facts" aria-labelledby="labels-title">
      <header class="row spread">
        <h2 id="labels-title">Labels</h2>
        {changes && !edit && <button type="button" class="quiet" onClick={() => setEdit(true)}><Icon name="edit" />Edit</button>}
      </header>
      {edit && <Form agent={agent} done={() => setEdit(false)} />}
      {!edit && selecting.length === 0 && <p class="soft">None. Sessions can select hosts by label, such as site=office.</p>}
      {!edit && selecting.length > 0 && <ul class="label-lines">{selecting.map((l) => <Line key={`${l.key} ${l.origin}`} agent={agent} label={l} changes={changes} />)}</ul>}
      {claimed.length > 0 && (
        <>
          <p class={selecting.length > 0 || edit ? "label-claims" : ""}>{agent.state === "revoked" ? "The agent claims them. No session selects a revoked host." : "Waiting for approval. No session selects this host by them yet."}</p>
          <ul class="label-lines">{claimed.map((l) => <Line key={l.key} agent={agent} label={l} changes={changes} />)}</ul>
        </>
      )}
    </section>
  );
}

/** The origin of a label in words. */
function originOf({ origin, overridden }: Label): string {
  if (origin === "set") return "set by an operator";
  if (origin === "claimed") return "claimed by the agent";
  return `${origin === "token" ? "from the join token" : "approved by an operator"}${overridden ? ", overridden" : ""}`;
}

function Line({ agent, label, changes }: { agent: Agent; label: Label; changes: boolean }) {
  const [asking, setAsking] = useState(false);
  const [fault, setFault] = useState("");
  const [busy, setBusy] = useState(false);
  const text = labelText(label);
  const claimed = label.origin === "claimed";
  const withdrawable = label.origin === "approved";
  const replaced = claimed ? replacement(agent, label.key) : undefined;
  const act = () => approve(agent.name, claimed ? { labels: { [label.key]: label.value } } : { withdraw: [label.key] });
  const press = async () => {
    if (!claimed || replaced) return setAsking(true);
    setBusy(true);
    setFault("");
    try {
      await act();
    } catch (e) {
      setFault(sentence(e));
    }
    setBusy(false);
  };
  return (
    <li>
      <span class={`label ${label.origin}${label.overridden ? " overridden" : ""}`}>{text}</span>
      <span class="soft small">{originOf(label)}</span>
      {changes && (claimed || withdrawable) && <button type="button" class="small-button" disabled={busy} aria-label={`${claimed ? "Approve" : "Withdraw"} ${text}`} onClick={() => void press()}>{claimed ? "Approve" : "Withdraw"}</button>}
      {fault && <p class="field-fault" role="alert">{fault}</p>}
      {asking && (
        <Dialog title={claimed ? `Approve ${text}?` : `Withdraw the approval of ${text}?`} action={claimed ? "Approve" : "Withdraw"} danger={!claimed} onAction={act} onClose={() => setAsking(false)} explain={sentence}>
          <p>{claimed ? replaced : `Sessions no longer select ${agent.name} by ${text}.`} Running sessions follow immediately.</p>
        </Dialog>
      )}
    </li>
  );
}

/** Parses lines such as key=value. */
function parsed(text: string): Record<string, string> {
  const lines = text.split(/[\n,]/).map((l) => l.trim()).filter(Boolean);
  return Object.fromEntries(lines.map((l) => {
    const cut = l.indexOf("=");
    return cut < 0 ? [l, ""] : [l.slice(0, cut).trim(), l.slice(cut + 1).trim()];
  }));
}

function Form({ agent, done }: { agent: Agent; done: () => void }) {
  const [text, setText] = useState(Object.entries(agent.setLabels).map(([key, value]) => labelText({ key, value })).join("\n"));
  const [fault, setFault] = useState("");
  const [busy, setBusy] = useState(false);
  const save = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await agentClient.setLabels({ name: agent.name, labels: parsed(text) });
      await agents.refresh();
      done();
    } catch (e) {
      setFault(sentence(e));
      setBusy(false);
    }
  };
  return (
    <form onSubmit={save} class="label-form">
      <label for="labels-text" class="small soft">Labels set by operators, one per line, key=value or key. They take precedence over approved labels and those of the join token. Running sessions follow immediately.</label>
      <textarea id="labels-text" rows={4} value={text} spellcheck={false} aria-describedby="labels-fault" onInput={(e) => { setText(e.currentTarget.value); setFault(""); }} />
      <p id="labels-fault" class="field-fault" role="alert">{fault}</p>
      <div class="row"><button class="main" type="submit" disabled={busy}>{busy ? "Saving…" : "Save"}</button><button type="button" onClick={done}>Cancel</button></div>
    </form>
  );
}
