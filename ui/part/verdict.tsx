// Verdicts on targets in a word and a colour.
import type { Verdict } from "../data/reports.ts";

/** Verdicts in words, with a sign for those who see no colours. */
export const verdictWords: Record<Verdict, string> = { met: "✓ met", missed: "✗ missed", undecided: "? undecided" };

const tones: Record<Verdict, string> = { met: "good", missed: "bad", undecided: "" };

/** VerdictMark shows a verdict, or how many have it. */
export function VerdictMark({ verdict, count }: { verdict: Verdict; count?: number }) {
  return <span class={`verdict ${tones[verdict]}`}>{count !== undefined && `${count} `}{verdictWords[verdict]}</span>;
}
