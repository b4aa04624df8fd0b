// A section of the session form.
import type { ComponentChildren } from "preact";
import type { Agent } from "../../gen/agent_pb.ts";
import type { PointOption } from "../../gen/session_pb.ts";
import type { Draft } from "../../data/draft.ts";
import { rangeOf } from "../../data/points.ts";

/** Properties of every section. */
export interface Form {
  draft: Draft;
  change(patch: Partial<Draft>): void;
  /** The problem at the element with an id. */
  fault(id: string): string | undefined;
  agents: readonly Agent[];
  /** The bounds and values of a field, by its name in the specification. */
  setting(name: string): PointOption | undefined;
}

/** The help of an option: what it is, its bounds, and advice. */
export function helpOf(o: PointOption | undefined, advice = ""): string {
  const what = o && `${[o.doc.charAt(0).toUpperCase() + o.doc.slice(1), rangeOf(o)].filter(Boolean).join(", ")}.`;
  return [what, advice].filter(Boolean).join(" ");
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
