// What this server is: its version, health and licences. Nothing here needs a token.
import { useEffect, useState } from "preact/hooks";
import { build } from "../data/health.ts";
import { useResource } from "../data/resource.ts";
import { Notice } from "../part/notice.tsx";
import { useTitle } from "../part/title.ts";
import "../style/about.css";
import { BuildPanel, HealthPanel } from "./about/server.tsx";

/** AboutView shows version, health and licence. */
export function AboutView() {
  useTitle("About");
  return (
    <div class="stack about">
      <header><h1>About Pillion</h1><p class="soft">Measures networks with the traffic already on them.</p></header>
      <BuildPanel />
      <HealthPanel />
      <section class="panel facts" aria-labelledby="licence-title">
        <h2 id="licence-title">Licence</h2>
        <p>Pillion is licensed under the Apache License 2.0. It contains software under other licences: <a href="#/licences">licences and notices</a>.</p>
      </section>
    </div>
  );
}

/** VersionLine is the version with a link to AboutView. */
export function VersionLine() {
  const version = useResource(build).value.value?.version;
  return <a href="#/about">{version ? `Version ${version}` : "About"}</a>;
}

const source = "/licenses.txt";

/** LicencesView shows the licence of Pillion, and the licences of the software in it. */
export function LicencesView() {
  useTitle("Licences");
  const [text, setText] = useState<string>();
  const [fault, setFault] = useState<string>();
  useEffect(() => {
    const abort = new AbortController();
    const read = async (): Promise<void> => {
      const answer = await fetch(source, { signal: abort.signal });
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      setText(await answer.text());
    };
    read().catch((e: unknown) => abort.signal.aborted || setFault(e instanceof Error ? e.message : String(e)));
    return () => abort.abort();
  }, []);
  return (
    <div class="stack about licences">
      <header><p class="small"><a href="#/about">About</a></p><h1>Licences</h1><p class="soft">Of Pillion and of the software in it. <a href={source} download>Download as text</a></p></header>
      {fault && <Notice title="Could not load the licences" level="error">{fault}</Notice>}
      {!fault && text === undefined && <p class="soft" role="status">Loading…</p>}
      {text !== undefined && <pre class="panel" tabIndex={0} aria-label="Licences">{text}</pre>}
    </div>
  );
}
