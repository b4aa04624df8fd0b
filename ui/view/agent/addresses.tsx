// The approved addresses of a host, and those that another host keeps.
import { useState } from "preact/hooks";
import type { Agent } from "../../gen/agent_pb.ts";
import { operates } from "../../data/account.ts";
import { sentence } from "../../data/client.ts";
import { approve } from "../../data/labels.ts";
import { href } from "../../data/route.ts";
import { Dialog } from "../../part/dialog.tsx";

/** AddressesPanel lists approved addresses; operators approve and withdraw them. */
export function AddressesPanel({ agent }: { agent: Agent }) {
  const changes = operates.value && agent.state !== "revoked";
  return (
    <section class="panel facts" aria-labelledby="addresses-title">
      <header><h2 id="addresses-title">Approved addresses</h2></header>
      <p class="soft small">Sources mark packets only to addresses that this host proves to have, or that are approved.</p>
      {agent.approvedAddresses.length === 0 && <p class="soft">None.</p>}
      {agent.approvedAddresses.length > 0 && <ul class="label-lines">{agent.approvedAddresses.map((a) => <Line key={a} name={agent.name} address={a} changes={changes} />)}</ul>}
      {agent.addressConflicts.length > 0 && (
        <ul class="label-lines">{agent.addressConflicts.map((c) => <li key={c.address}><code>{c.address}</code><span class="tone warning small">kept by <a href={href(["agent", c.agent])}>{c.agent}</a>, which has had it for longer</span></li>)}</ul>
      )}
      {changes && <Form agent={agent} />}
    </section>
  );
}

function Line({ name, address, changes }: { name: string; address: string; changes: boolean }) {
  const [asking, setAsking] = useState(false);
  return (
    <li>
      <code>{address}</code>
      {changes && <button type="button" class="small-button" aria-label={`Withdraw ${address}`} onClick={() => setAsking(true)}>Withdraw</button>}
      {asking && (
        <Dialog title={`Withdraw the approval of ${address}?`} action="Withdraw" danger onAction={() => approve(name, { withdraw: [address] })} onClose={() => setAsking(false)} explain={sentence}>
          <p>Sources then mark packets to these addresses only once {name} has proven that it has them.</p>
        </Dialog>
      )}
    </li>
  );
}

/** The addresses that a host reports, without prefix lengths, as suggestions. */
const reported = (agent: Agent): string[] => [...new Set(agent.interfaces.flatMap((i) => i.addresses.map((a) => a.split("/")[0] ?? "")))].filter((a) => a && !/^(127\.|::1$|fe80:)/i.test(a));

function Form({ agent }: { agent: Agent }) {
  const [text, setText] = useState("");
  const [fault, setFault] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!text.trim()) return setFault("Enter an address, or a prefix such as 10.0.0.0/24.");
    setBusy(true);
    try {
      await approve(agent.name, { addresses: [text.trim()] });
      setText("");
    } catch (e) {
      setFault(sentence(e));
    }
    setBusy(false);
  };
  return (
    <form class="row" onSubmit={submit}>
      <label class="hidden-text" for="address-text">Address or prefix</label>
      <input id="address-text" class="grow" value={text} list="reported-addresses" placeholder="10.0.0.1 or 10.0.0.0/24" autocomplete="off" spellcheck={false} autocapitalize="none" aria-invalid={Boolean(fault)} aria-describedby="address-fault" onInput={(e) => { setText(e.currentTarget.value); setFault(""); }} />
      <datalist id="reported-addresses">{reported(agent).map((a) => <option key={a} value={a} />)}</datalist>
      <button type="submit" disabled={busy}>Approve</button>
      <p id="address-fault" class="field-fault" role="alert">{fault}</p>
    </form>
  );
}
