// Tokens: who may use the server. For admins.
import { useEffect, useState } from "preact/hooks";
import { may, who } from "../data/account.ts";
import { useResource } from "../data/resource.ts";
import { stateOf, tokens } from "../data/tokens.ts";
import { Notice } from "../part/notice.tsx";
import "../style/tokens.css";
import { NewToken } from "./tokens/new.tsx";
import { Secret } from "./tokens/secret.tsx";
import { TokenTable } from "./tokens/table.tsx";

/** TokensView lists, makes and revokes tokens. */
export function TokensView() {
  useEffect(() => {
    document.title = "Tokens · Pillion";
    return () => void (document.title = "Pillion");
  }, []);
  if (!who.value) return <p class="soft" role="status">Asking who you are…</p>;
  if (!may("admin")) return <Notice title="Only for admins" action={<a class="button" href="#/">To the overview</a>}>Your token has the role {who.value.role}. Tokens are made and revoked by admins.</Notice>;
  return <Tokens />;
}

function Tokens() {
  const { value, fault } = useResource(tokens);
  const [made, setMade] = useState<{ name: string; role: string; secret: string }>();
  const all = value.value;
  return (
    <div class="stack tokens">
      <header><h1>Tokens</h1><p class="soft">People and programs show a token to use the server; hosts show one once, to join.</p></header>
      {made && <Secret {...made} onDone={() => setMade(undefined)} />}
      <NewToken taken={(all ?? []).map((t) => t.name)} onMade={setMade} />
      <section class="panel" aria-labelledby="token-list">
        <header><h2 id="token-list">All tokens</h2>{all && <span class="soft">{all.filter((t) => stateOf(t) === "valid").length} valid</span>}</header>
        {fault.value && <p class="field-fault" role="alert">{fault.value}</p>}
        {!all && !fault.value && <p class="soft" role="status">Reading tokens…</p>}
        {all && <TokenTable tokens={all} />}
      </section>
    </div>
  );
}
