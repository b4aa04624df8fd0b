// The secret of a new token, shown once.
import { useEffect, useRef, useState } from "preact/hooks";
import { copyText } from "../../data/clipboard.ts";

/** Secret shows a secret that the server cannot show again. */
export function Secret({ name, role, secret, onDone }: { name: string; role: string; secret: string; onDone: () => void }) {
  const [copied, setCopied] = useState<"yes" | "no">();
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    setCopied(undefined);
    box.current?.focus();
    box.current?.select();
  }, [secret]);
  const copy = async (): Promise<void> => {
    const done = await copyText(secret);
    if (!done) box.current?.select();
    setCopied(done ? "yes" : "no");
  };
  return (
    <section class="panel token-secret" aria-labelledby="secret-title">
      <h2 id="secret-title">Secret of {name}</h2>
      <p><strong>It is shown only once.</strong> {role === "join" ? "Write it to a file on the new host and start the agent with --token-file." : `It grants the role ${role}. Store it securely.`}</p>
      <div class="row">
        <input ref={box} readOnly value={secret} aria-label={`Secret of ${name}`} onFocus={(e) => e.currentTarget.select()} />
        <button type="button" class="main" onClick={() => void copy()}>Copy</button>
        <button type="button" onClick={onDone}>Done</button>
      </div>
      <p class="small soft" role="status">{copied === "yes" ? "Copied." : copied === "no" ? "The browser denied access to the clipboard. The secret is selected: copy it with the keyboard." : ""}</p>
    </section>
  );
}
