// The equivalent command line.
import { useState } from "preact/hooks";
import { copyText } from "../../data/clipboard.ts";

/** CopyButton copies a text and says whether that worked. */
function CopyButton({ text, label }: { text: string; label: string }) {
  const [state, setState] = useState<"" | "Copied" | "Not copied: select the text">("");
  const copy = async (): Promise<void> => {
    setState((await copyText(text)) ? "Copied" : "Not copied: select the text");
    setTimeout(() => setState(""), 2500);
  };
  return <button type="button" class="quiet" onClick={() => void copy()}><span role="status">{state || label}</span></button>;
}

/** CommandPanel shows the equivalent command line; lines break between its options. */
export function CommandPanel({ text }: { text: string }) {
  const line = text.split("\n", 1)[0] ?? "";
  return (
    <section class="panel command" aria-labelledby="command-title">
      <header class="spread"><h2 id="command-title">Equivalent command</h2><CopyButton text={text} label="Copy" /></header>
      <pre tabIndex={0} aria-label="Command line"><code>{line.split(/(?= --)/).map((words) => <span key={words}>{words}</span>)}{text.slice(line.length)}</code></pre>
    </section>
  );
}
