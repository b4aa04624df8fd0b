// The secret of a new token: shown once.
import { useEffect, useRef, useState } from "preact/hooks";

/** Secret shows what nobody can see again. */
export function Secret({ name, role, secret, onDone }: { name: string; role: string; secret: string; onDone: () => void }) {
  const [copied, setCopied] = useState<"yes" | "no">();
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    setCopied(undefined);
    box.current?.focus();
    box.current?.select();
  }, [secret]);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(secret);
      setCopied("yes");
    } catch {
      // without TLS browsers have no clipboard for pages
      box.current?.select();
      setCopied("no");
    }
  };
  return (
    <section class="panel token-secret" aria-labelledby="secret-title">
      <h2 id="secret-title">The secret of {name}</h2>
      <p><strong>It is shown only now.</strong> {role === "join" ? "Write it to a file on the new host and start the agent with --token-file." : "Whoever has it acts with the role "}{role !== "join" && <>{role}: keep it where only they can read it.</>}</p>
      <div class="row">
        <input ref={box} readOnly value={secret} aria-label={`Secret of ${name}`} onFocus={(e) => e.currentTarget.select()} />
        <button type="button" class="main" onClick={() => void copy()}>Copy</button>
        <button type="button" onClick={onDone}>Done, hide it</button>
      </div>
      <p class="small soft" role="status">{copied === "yes" ? "Copied." : copied === "no" ? "This browser lets no page copy here: the secret is selected, copy it by keyboard." : ""}</p>
    </section>
  );
}
