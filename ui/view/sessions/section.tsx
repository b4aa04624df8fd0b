// A part of the form of a session.
import type { ComponentChildren } from "preact";
import type { Agent } from "../../gen/agent_pb.ts";
import type { Draft } from "../../data/draft.ts";

/** What every part of the form is given. */
export interface Form {
  draft: Draft;
  change(patch: Partial<Draft>): void;
  /** What is wrong at the element of that id. */
  fault(id: string): string | undefined;
  agents: readonly Agent[];
}

/** Section is a titled part of the form. */
export function Section({ title, id, children }: { title: string; id: string; children: ComponentChildren }) {
  return (
    <section class="panel form-section" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{title}</h2>
      {children}
    </section>
  );
}
