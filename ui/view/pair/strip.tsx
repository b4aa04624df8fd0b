// Current figures of both directions with explanations.
import { useId, useMemo } from "preact/hooks";
import type { Drawn } from "../../data/pair.ts";
import { duration, packetRate, rate, share } from "../../data/quantity.ts";
import { lengthWords } from "../../data/span.ts";
import { lossIn, measuredIn, packetsIn, rateIn, sum, type Clock, type Figures } from "../../data/window.ts";

interface Kind {
  name: string;
  help: string;
  of: (f: Figures, length: number) => string;
}

const kinds: Kind[] = [
  { name: "Median delay", of: (f) => duration(f.delay.p50), help: "Half of the packets with a time stamp had a lower one-way delay (RFC 7679)." },
  { name: "p99 delay", of: (f) => duration(f.delay.p99), help: "99 % of the packets with a time stamp had a lower one-way delay (RFC 7679)." },
  { name: "Loss", of: (f) => share(lossIn(f)), help: "Share of the packets sent that were lost (RFC 7680)." },
  { name: "IPDV p90", of: (f) => duration(f.ipdv.p90), help: "90th percentile of the delay variation between consecutive packets (RFC 3393)." },
  { name: "Throughput", of: (f, ms) => rate(rateIn(f, ms)), help: "IP bits of the received marked packets, without marks." },
  { name: "Packets", of: (f, ms) => packetRate(packetsIn(f, ms)), help: "Marked packets received per second." },
  { name: "Clock", of: (f) => (Number.isNaN(f.clockError) ? "unknown" : f.clockError === 0 ? "shared" : `±${duration(f.clockError)}`), help: "Maximum error of both clocks together. Smaller delays and changes of delay are not significant. Shared: both hosts use one clock." },
];

const correctedKinds: Record<string, Kind> = {
  "Median delay": { name: "Median delay", help: "Half of the packets with a time stamp had a lower one-way delay (RFC 7679), after the estimated clock offset was subtracted.", of: (f) => duration(f.delay.p50) },
  "p99 delay": { name: "p99 delay", help: "99 % of the packets with a time stamp had a lower one-way delay (RFC 7679), after the estimated clock offset was subtracted.", of: (f) => duration(f.delay.p99) },
  Clock: { name: "Clock offset", help: "Maximum error of the corrected delays: about half of the minimum round-trip time, because its division between the directions is unknown. Changes of delay are more accurate.", of: (f) => (Number.isNaN(f.clockError) ? "unknown" : `±${duration(f.clockError)}`) },
};
const kindsOf = (clock: Clock): Kind[] => (clock === "corrected" ? kinds.map((k) => correctedKinds[k.name] ?? k) : kinds);

/** The figures of the strip: the last complete window while live, else the whole shown range. */
export function subject(windows: readonly Figures[], drawn: Drawn, live: boolean): { figures: Figures; length: number } | undefined {
  const inside = windows.filter((f) => f.start + drawn.step > drawn.from && f.start < drawn.to);
  if (!live) {
    const figures = sum(inside);
    return figures && { figures, length: drawn.to - drawn.from };
  }
  const figures = inside.findLast((f) => measuredIn(f, drawn.step, drawn.now) === drawn.step) ?? inside.at(-1);
  // Older windows are not current.
  if (!figures || figures.start < drawn.to - Math.max(5 * drawn.step, 15e3)) return undefined;
  return { figures, length: measuredIn(figures, drawn.step, drawn.now) };
}

interface StripProps {
  drawn: Drawn;
  live: boolean;
  clock: Clock;
  source: string;
  destination: string;
}

/** Strip shows the figures of both directions. */
export function Strip({ drawn, live, clock, source, destination }: StripProps) {
  const when = live ? `last ${lengthWords(drawn.step)}` : "shown range";
  return (
    <div class="pair-strip">
      <Side clock={clock} windows={drawn.out} drawn={drawn} live={live} name={`${source} → ${destination}`} kind="out" when={when} />
      <Side clock={clock} windows={drawn.back} drawn={drawn} live={live} name={`${destination} → ${source}`} kind="back" when={when} />
    </div>
  );
}

function Side({ clock, windows, drawn, live, name, kind, when }: { clock: Clock; windows: readonly Figures[]; drawn: Drawn; live: boolean; name: string; kind: "out" | "back"; when: string }) {
  const id = useId();
  const s = useMemo(() => subject(windows, drawn, live), [windows, live]);
  return (
    <section class={`panel pair-side ${kind}`} aria-label={`Figures ${name}`}>
      <h2>{name} <span class="faint small">{when}{clock === "corrected" && ", delays corrected"}</span></h2>
      <dl>
        {kindsOf(clock).map((k, i) => (
          <div class="pair-figure" key={k.name}>
            <dt><button type="button" class="pair-help" aria-describedby={`${id}-${i}`}>{k.name}</button><span class="pair-tip" role="tooltip" id={`${id}-${i}`}>{k.help}</span></dt>
            <dd>{s ? k.of(s.figures, s.length) : "–"}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
