// What an event is about, as a small drawing beside its words.
import type { Subject } from "../../data/kind.ts";

const paths: Record<Subject, string> = {
  agent: "M4 5h16v10H4zM9 19h6M12 15v4",
  session: "M4 6h16v14H4zM4 10h16M8 3.5V7M16 3.5V7",
  path: "M5 19a2 2 0 1 0 0-.01M19 5a2 2 0 1 0 0-.01M5 17V9a3 3 0 0 1 3-3h3a3 3 0 0 1 3 3v6a3 3 0 0 0 3 3 2 2 0 0 0 2-2V7",
  loss: "M3 12h8M8 9l3 3-3 3M15 8.5l6 7M21 8.5l-6 7",
  clock: "M12 4a8 8 0 1 0 .01 0M12 8v4.5l3 2",
  spool: "M5 6.5C5 5 8 4 12 4s7 1 7 2.5-3 2.5-7 2.5S5 8 5 6.5M5 6.5v11C5 19 8 20 12 20s7-1 7-2.5v-11",
  other: "M12 4a8 8 0 1 0 .01 0M12 11v5M12 8v.01",
};

/** SubjectIcon is a decoration; the kind stands beside it in words. */
export function SubjectIcon({ subject }: { subject: Subject }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round">
      <path d={paths[subject]} />
    </svg>
  );
}
