// Tokens of the server, for admins.
import { useState } from "preact/hooks";
import { may, who } from "../data/account.ts";
import { useResource } from "../data/resource.ts";
import { stateOf, tokens } from "../data/tokens.ts";
import { Notice } from "../part/notice.tsx";
import { useTitle } from "../part/title.ts";
import "../style/tokens.css";
import { NewToken } from "./tokens/new.tsx";
import { Secret } from "./tokens/secret.tsx";
import { TokenTable } from "./tokens/table.tsx";

/** TokensView lists, creates and revokes tokens. */
export function TokensView() {
  useTitle("Tokens");
  if (!who.value) return <p class="soft" role="status">Loading…</p>;
  if (!may("admin")) return <Notice title="Admins only" action={<a class="button" href="#/">Go to the overview</a>}>Your token has the role {who.value.role}. Only admins can create and revoke tokens.</Notice>;
  return <Tokens />;
}

function Tokens() {
  const { value, fault } = useResource(tokens);
  const [made, setMade] = useState<{ name: string; role: string; secret: string }>();
  const all = value.value;
  return (
    <div class="stack tokens">
      <header><h1>Tokens</h1><p class="soft">Users and programs authenticate with a token. Hosts use one once, to join.</p></header>
      {made && <Secret {...made} onDone={() => setMade(undefined)} />}
      <NewToken taken={(all ?? []).map((t) => t.name)} onMade={setMade} />
      <section class="panel" aria-labelledby="token-list">
        <header><h2 id="token-list">All tokens</h2>{all && <span class="soft">{all.filter((t) => stateOf(t) === "valid").length} valid</span>}</header>
        {fault.value && <p class="field-fault" role="alert">{fault.value}</p>}
        {!all && !fault.value && <p class="soft" role="status">Loading…</p>}
        {all && <TokenTable tokens={all} />}
      </section>
    </div>
  );
}
