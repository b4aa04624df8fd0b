// A form for a new token.
import { useState } from "preact/hooks";
import { sentence } from "../../data/client.ts";
import { createToken, lengths, roles } from "../../data/tokens.ts";
import { Icon } from "../../part/icon.tsx";

interface NewTokenProps {
  /** Names in use. */
  taken: readonly string[];
  onMade: (made: { name: string; role: string; secret: string }) => void;
}

/** NewToken creates a token and passes its secret to onMade. */
export function NewToken({ taken, onMade }: NewTokenProps) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<string>("viewer");
  const [days, setDays] = useState(90);
  const [bounds, setBounds] = useState({ uses: 1, agents: "", labels: "" });
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  const text = name.trim();
  const clash = taken.includes(text) ? `A token named ${text} already exists.` : undefined;
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!text) return setFault("A token needs a name.");
    if (clash) return;
    setBusy(true);
    setFault(undefined);
    try {
      const secret = await createToken(text, role, days, bounds);
      onMade({ name: text, role, secret });
      setName("");
    } catch (e) {
      setFault(sentence(e));
    }
    setBusy(false);
  };
  const why = clash ?? fault;
  return (
    <form class="panel token-form" onSubmit={submit} aria-labelledby="new-token">
      <h2 id="new-token">New token</h2>
      <div class="token-fields">
        <label>Name<input value={name} maxLength={64} placeholder="e.g. dashboard" autocomplete="off" spellcheck={false} aria-invalid={Boolean(why)} aria-describedby="token-fault" onInput={(e) => { setName(e.currentTarget.value); setFault(undefined); }} /></label>
        <label>Role<select value={role} aria-describedby="token-role" onChange={(e) => { setRole(e.currentTarget.value); setDays(e.currentTarget.value === "join" ? 1 : 90); }}>{roles.map((r) => <option key={r.key} value={r.key}>{r.key}</option>)}</select></label>
        <label>Expires after<select value={days} onChange={(e) => setDays(Number(e.currentTarget.value))}>{lengths.map((l) => <option key={l.days} value={l.days}>{l.label}</option>)}</select></label>
        {role === "join" && <>
          <label>Hosts<input aria-describedby="token-hosts" type="number" min={0} max={10000} value={bounds.uses} onInput={(e) => setBounds({ ...bounds, uses: e.currentTarget.valueAsNumber || 0 })} /></label>
          <label>Agents<input value={bounds.agents} placeholder="any, or e.g. rack7-*" autocomplete="off" spellcheck={false} onInput={(e) => setBounds({ ...bounds, agents: e.currentTarget.value })} /></label>
          <label>Labels<input value={bounds.labels} placeholder="e.g. site=north" autocomplete="off" spellcheck={false} onInput={(e) => setBounds({ ...bounds, labels: e.currentTarget.value })} /></label>
        </>}
        <button class="main" type="submit" disabled={busy || Boolean(clash)}><Icon name="plus" />{busy ? "Creating…" : "Create"}</button>
      </div>
      <p id="token-role" class="small soft">{roles.find((r) => r.key === role)?.may}</p>
      {role === "join" && <p id="token-hosts" class="small soft">Hosts: how many may join with this token; 0 means any number.</p>}
      <p id="token-fault" class="field-fault" role="alert">{why}</p>
    </form>
  );
}
