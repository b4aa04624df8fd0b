// The labels of a host, which operators can edit.
import { useState } from "preact/hooks";
import type { Agent } from "../../gen/agent_pb.ts";
import { operates } from "../../data/account.ts";
import { agents } from "../../data/agents.ts";
import { agentClient, sentence } from "../../data/client.ts";
import { Icon } from "../../part/icon.tsx";
import { Labels } from "../overview/agents.tsx";

/** LabelsPanel shows labels and lets operators edit them. */
export function LabelsPanel({ agent }: { agent: Agent }) {
  const [edit, setEdit] = useState(false);
  return (
    <section class="panel facts" aria-labelledby="labels-title">
      <header class="row spread">
        <h2 id="labels-title">Labels</h2>
        {operates.value && !edit && <button type="button" class="quiet" onClick={() => setEdit(true)}><Icon name="edit" />Edit</button>}
      </header>
      {edit ? <Form agent={agent} done={() => setEdit(false)} /> : Object.keys(agent.labels).length > 0
        ? <Labels labels={agent.labels} />
        : <p class="soft">None. Sessions can select hosts by label, such as site=office.</p>}
      {Object.keys(agent.claimedLabels).length > 0 && <Claims agent={agent} />}
    </section>
  );
}

/** Claims are labels of the host's own configuration, by which no session selects it. */
function Claims({ agent }: { agent: Agent }) {
  const [fault, setFault] = useState("");
  const approve = async () => {
    try {
      await agentClient.approveAgent({ name: agent.name, labels: agent.claimedLabels });
      await agents.refresh();
    } catch (e) {
      setFault(sentence(e));
    }
  };
  return (
    <>
      <p class="soft small">Claimed by the agent, not approved: no session selects it by these.</p>
      <Labels labels={agent.claimedLabels} />
      {operates.value && <div class="row"><button type="button" class="quiet" onClick={approve}>Approve</button></div>}
      <p class="field-fault" role="alert">{fault}</p>
    </>
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
  const [text, setText] = useState(Object.entries(agent.labels).map(([key, value]) => (value ? `${key}=${value}` : key)).join("\n"));
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
      <label for="labels-text" class="small soft">One per line, key=value or key. Labels of the join token and approved ones cannot be removed here. Running sessions follow immediately.</label>
      <textarea id="labels-text" rows={4} value={text} spellcheck={false} aria-describedby="labels-fault" onInput={(e) => { setText(e.currentTarget.value); setFault(""); }} />
      <p id="labels-fault" class="field-fault" role="alert">{fault}</p>
      <div class="row"><button class="main" type="submit" disabled={busy}>{busy ? "Saving…" : "Save"}</button><button type="button" onClick={done}>Cancel</button></div>
    </form>
  );
}
