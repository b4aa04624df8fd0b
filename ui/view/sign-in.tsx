// The sign-in form.
import { useState } from "preact/hooks";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { refusal, signIn, type Role } from "../data/account.ts";
import { sentence } from "../data/client.ts";
import { ServerService } from "../gen/server_pb.ts";
import { ThemeButton } from "../part/theme.tsx";
import { useTitle } from "../part/title.ts";
import { VersionLine } from "./about.tsx";

/** Asks for a token until the server accepts it. */
export function SignInView() {
  useTitle("Sign in");
  const [secret, setSecret] = useState("");
  const [remember, setRemember] = useState(false);
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);

  const submit = async (event: Event) => {
    event.preventDefault();
    const text = secret.trim();
    if (!text) return setFault("Enter a token.");
    setBusy(true);
    try {
      const me = await withToken(text).whoAmI({});
      signIn(text, { name: me.name, role: me.role as Role, scope: me.scope }, remember);
    } catch (e) {
      setFault(sentence(e));
    }
    setBusy(false);
  };
  const why = fault ?? (refusal.value && `You were signed out: ${refusal.value}`);
  return (
    <main class="sign-in">
      <form onSubmit={submit}>
        <h1><img src="/icon.svg" alt="" width="32" height="32" /> Pillion</h1>
        <p>Measures networks with the traffic already on them.</p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="current-password" spellcheck={false} value={secret} aria-invalid={Boolean(why)} aria-describedby="token-why token-help"
          onInput={(e) => { setSecret(e.currentTarget.value); setFault(undefined); }} />
        <p id="token-why" class="field-fault" role="alert">{why}</p>
        <label class="check"><input type="checkbox" checked={remember} onChange={(e) => setRemember(e.currentTarget.checked)} /> Stay signed in on this device</label>
        <button class="main" type="submit" disabled={busy}>{busy ? "Signing in…" : "Sign in"}</button>
        <details id="token-help">
          <summary>Where do I get a token?</summary>
          <p>On its first start the server wrote an administrator's token to <code>admin.token</code> in its data directory. To create more, for example for viewers:</p>
          <pre><code>pillion token create NAME --role viewer</code></pre>
        </details>
      </form>
      <p class="row small"><VersionLine /><ThemeButton /></p>
    </main>
  );
}

function withToken(secret: string) {
  return createClient(ServerService, createConnectTransport({
    baseUrl: location.origin,
    interceptors: [(next) => (request) => {
      request.header.set("Authorization", `Bearer ${secret}`);
      return next(request);
    }],
  }));
}
