// A section of the session form.
import type { ComponentChildren } from "preact";
import type { Agent } from "../../gen/agent_pb.ts";
import type { Draft } from "../../data/draft.ts";

/** Properties of every section. */
export interface Form {
  draft: Draft;
  change(patch: Partial<Draft>): void;
  /** The problem at the element with an id. */
  fault(id: string): string | undefined;
  agents: readonly Agent[];
}

/** Section is a titled section of the form. */
export function Section({ title, id, children }: { title: string; id: string; children: ComponentChildren }) {
  return (
    <section class="panel form-section" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{title}</h2>
      {children}
    </section>
  );
}
