// A command line that does the same, and copies of text.
import { useState } from "preact/hooks";

/** CopyButton puts a text into the clipboard, and says whether that worked. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const [state, setState] = useState<"" | "Copied" | "Not copied: select the text">("");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setState("Copied");
    } catch {
      setState("Not copied: select the text"); // browsers refuse it without HTTPS
    }
    setTimeout(() => setState(""), 2500);
  };
  return <button type="button" class="quiet" onClick={() => void copy()}><span role="status">{state || label}</span></button>;
}

/** CommandPanel shows how to do the same on the command line. */
export function CommandPanel({ text }: { text: string }) {
  return (
    <section class="panel command" aria-labelledby="command-title">
      <header class="spread"><h2 id="command-title">The same on the command line</h2><CopyButton text={text} label="Copy" /></header>
      <pre tabIndex={0} aria-label="Command line"><code>{text}</code></pre>
    </section>
  );
}
