// Findings of checks, with what to do.
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { moment } from "../data/quantity.ts";
import { millis } from "../data/time.ts";
import { Badge } from "./badge.tsx";

interface Finding {
  where?: string;
  name: string;
  level: string;
  found: string;
  advice: string;
  since?: Timestamp;
}

const sinceText = (f: Finding): string => (f.since ? `, since ${moment(millis(f.since) ?? 0)}` : "");

/** Findings lists findings as the server words them. */
export function Findings({ list }: { list: readonly Finding[] }) {
  return (
    <ul class="checks">
      {list.map((f, i) => (
        <li key={i}><Badge state={f.level} /><div><strong>{[f.where, f.name].filter(Boolean).join(": ")}</strong> <span>{f.found}{sinceText(f)}</span>{f.advice && <p class="soft">{f.advice}</p>}</div></li>
      ))}
    </ul>
  );
}
