// The list of tokens.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Token } from "../../gen/server_pb.ts";
import { who } from "../../data/account.ts";
import { sentence } from "../../data/client.ts";
import { ago, moment } from "../../data/quantity.ts";
import { millis } from "../../data/time.ts";
import { boundsOf, revokeToken, stateOf } from "../../data/tokens.ts";

const order = { valid: 0, "used up": 1, expired: 1, revoked: 2 };

/** TokenTable lists tokens, valid ones first, and revokes them. */
export function TokenTable({ tokens }: { tokens: readonly Token[] }) {
  const sorted = [...tokens].sort((a, b) => order[stateOf(a)] - order[stateOf(b)] || a.name.localeCompare(b.name));
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Tokens">
      <table class="cards">
        <thead><tr><th scope="col">Name</th><th scope="col">Role</th><th scope="col">State</th><th scope="col">Created</th><th scope="col">Expires</th><th scope="col">Last used</th><th scope="col">Hosts</th><th scope="col">Names</th><th scope="col">Labels</th><th scope="col"><span class="hidden-text">Actions</span></th></tr></thead>
        <tbody>{sorted.map((t) => <Row key={t.name} token={t} />)}</tbody>
      </table>
    </div>
  );
}

function Row({ token }: { token: Token }) {
  const state = stateOf(token);
  const joins = boundsOf(token);
  const blank = joins ? "" : "blank";
  const none = <span class="faint">–</span>;
  const mine = token.name === who.value?.name;
  return (
    <tr class={state === "valid" ? undefined : "faint"}>
      <th scope="row" class="token-name">{token.name}{mine && <span class="small soft"> (yours)</span>}</th>
      <td data-name="Role">{token.role}</td>
      <td data-name="State"><span class={`badge ${state === "valid" ? "good" : state === "revoked" ? "idle" : "warning"}`}>{state}</span></td>
      <td data-name="Created"><Moment at={millis(token.created)} none="unknown" /></td>
      <td data-name="Expires"><Moment at={millis(token.expires)} none="never" exact /></td>
      <td data-name="Last used"><Moment at={millis(token.used)} none="never" /></td>
      <td data-name="Hosts" class={blank}>{joins?.hosts ?? none}</td>
      <td data-name="Names" class={blank}>{joins?.names ?? none}</td>
      <td data-name="Labels" class={`token-labels ${blank}`}>{joins?.labels ?? none}</td>
      <td class="token-action">{state === "valid" && <Revoke name={token.name} mine={mine} />}</td>
    </tr>
  );
}

function Moment({ at, none, exact }: { at: number | undefined; none: string; exact?: boolean }) {
  if (at === undefined) return <span class="soft">{none}</span>;
  return <time dateTime={new Date(at).toISOString()} title={moment(at)}>{exact ? moment(at).slice(0, 16) : ago(at)}</time>;
}

/** Revoke asks for confirmation. */
function Revoke({ name, mine }: { name: string; mine: boolean }) {
  const [asking, setAsking] = useState(false);
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  const keep = useRef<HTMLButtonElement>(null);
  useEffect(() => keep.current?.focus(), [asking]);
  if (!asking) return <button type="button" class="quiet" aria-label={`Revoke ${name}`} onClick={() => setAsking(true)}>Revoke</button>;
  const end = async (): Promise<void> => {
    setBusy(true);
    try {
      await revokeToken(name);
    } catch (e) {
      setFault(sentence(e));
      setBusy(false);
    }
  };
  return (
    <div class="token-sure" role="group" aria-label={`Revoke ${name}?`}>
      <span>{mine ? "This is your own token: you will be signed out." : "Takes effect immediately and cannot be undone."}</span>
      <button type="button" class="danger" disabled={busy} onClick={() => void end()}>Revoke {name}</button>
      <button type="button" ref={keep} onClick={() => setAsking(false)}>Keep</button>
      {fault && <span class="field-fault" role="alert">{fault}</span>}
    </div>
  );
}
