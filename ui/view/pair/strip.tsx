// Current figures of both directions, each with its unit and what it is.
import { useId, useMemo } from "preact/hooks";
import type { Drawn } from "../../data/pair.ts";
import { duration, packetRate, rate, share } from "../../data/quantity.ts";
import { lengthWords } from "../../data/span.ts";
import { lossIn, measuredIn, packetsIn, rateIn, sum, type Figures } from "../../data/window.ts";

const kinds: { name: string; help: string; of: (f: Figures, length: number) => string }[] = [
  { name: "Median delay", of: (f) => duration(f.delay.p50), help: "One-way delay that half of the packets stayed below (RFC 7679)." },
  { name: "p99 delay", of: (f) => duration(f.delay.p99), help: "One-way delay that 99 of 100 packets stayed below (RFC 7679)." },
  { name: "Loss", of: (f) => share(lossIn(f)), help: "Share of the packets sent that did not come (RFC 7680)." },
  { name: "IPDV p90", of: (f) => duration(f.ipdv.p90), help: "Change of delay from one packet to the next; nine of ten changed less (RFC 3393)." },
  { name: "Throughput", of: (f, ms) => rate(rateIn(f, ms)), help: "IP bits of the marked packets that came, without the marks." },
  { name: "Packets", of: (f, ms) => packetRate(packetsIn(f, ms)), help: "Marked packets that came, each second." },
  { name: "Clock", of: (f) => (Number.isNaN(f.clockError) ? "unknown" : f.clockError === 0 ? "one clock" : `±${duration(f.clockError)}`), help: "What both clocks together may be off. A delay, or a change of it, below that proves little. One clock: both hosts share it." },
];

/** What the strip speaks of: the last whole window while live, else all that is shown. */
export function subject(windows: readonly Figures[], drawn: Drawn, live: boolean): { figures: Figures; length: number } | undefined {
  const inside = windows.filter((f) => f.start + drawn.step > drawn.from && f.start < drawn.to);
  if (!live) {
    const figures = sum(inside);
    return figures && { figures, length: drawn.to - drawn.from };
  }
  const figures = inside.findLast((f) => measuredIn(f, drawn.step, drawn.now) === drawn.step) ?? inside.at(-1);
  // What is older is not current.
  if (!figures || figures.start < drawn.to - Math.max(5 * drawn.step, 15e3)) return undefined;
  return { figures, length: measuredIn(figures, drawn.step, drawn.now) };
}

export interface StripProps {
  drawn: Drawn;
  live: boolean;
  source: string;
  destination: string;
}

/** Strip shows the figures of both directions. */
export function Strip({ drawn, live, source, destination }: StripProps) {
  const when = live ? `last ${lengthWords(drawn.step)}` : "all that is shown";
  return (
    <div class="pair-strip">
      <Side windows={drawn.out} drawn={drawn} live={live} name={`${source} → ${destination}`} kind="out" when={when} />
      <Side windows={drawn.back} drawn={drawn} live={live} name={`${destination} → ${source}`} kind="back" when={when} />
    </div>
  );
}

function Side({ windows, drawn, live, name, kind, when }: { windows: readonly Figures[]; drawn: Drawn; live: boolean; name: string; kind: "out" | "back"; when: string }) {
  const id = useId();
  const s = useMemo(() => subject(windows, drawn, live), [windows, live]);
  return (
    <section class={`panel pair-side ${kind}`} aria-label={`Figures ${name}`}>
      <h2>{name} <span class="faint small">{when}</span></h2>
      <dl>
        {kinds.map((k, i) => (
          <div class="pair-figure" key={k.name}>
            <dt><button type="button" class="pair-help" aria-describedby={`${id}-${i}`}>{k.name}</button><span class="pair-tip" role="tooltip" id={`${id}-${i}`}>{k.help}</span></dt>
            <dd>{s ? k.of(s.figures, s.length) : "–"}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
