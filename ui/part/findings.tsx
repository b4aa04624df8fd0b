// Findings of checks, with what to do.
import { Badge } from "./badge.tsx";

interface Finding {
  where?: string;
  name: string;
  level: string;
  found: string;
  advice: string;
}

/** Findings lists findings as the server words them. */
export function Findings({ list }: { list: readonly Finding[] }) {
  return (
    <ul class="checks">
      {list.map((f, i) => (
        <li key={i}><Badge state={f.level} /><div><strong>{[f.where, f.name].filter(Boolean).join(": ")}</strong> <span>{f.found}</span>{f.advice && <p class="soft">{f.advice}</p>}</div></li>
      ))}
    </ul>
  );
}
