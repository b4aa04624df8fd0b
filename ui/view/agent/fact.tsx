// Panels of named facts.
import type { ComponentChildren } from "preact";

/** Facts is a panel of named facts. */
export function Facts({ title, children }: { title: string; children: ComponentChildren }) {
  return <section class="panel facts" aria-label={title}><h2>{title}</h2>{children}</section>;
}

/** Fact is one of them. */
export function Fact({ name, note, tone, children }: { name: string; note?: string | undefined; tone?: string | undefined; children: ComponentChildren }) {
  return (
    <dl class="fact">
      <dt>{name}</dt>
      <dd class={tone ? `tone ${tone}` : ""}>{children}{note && <small>{note}</small>}</dd>
    </dl>
  );
}
