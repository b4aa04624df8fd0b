// The legend of the matrix.
import type { Tone } from "../../chart/matrix-paint.ts";
import type { Measure } from "../../data/pair-table.ts";
import { share, duration } from "../../data/quantity.ts";
import { legendOf, liveTones, tonesOfStates } from "./picture.ts";
import type { Span } from "./range.ts";
import { measureWords, stateWord } from "./state.ts";

interface LegendProps {
  measure: Measure;
  span: Span | undefined;
  palette: Tone[];
  /** The time of all figures; without it each figure is of the latest time of its pair of hosts, and can be stale. */
  time?: string;
}

/** Legend shows the colours with values and units. */
export function Legend({ measure, span, palette, time }: LegendProps) {
  const ticks = legendOf(measure, span);
  const tones = liveTones(palette);
  const states = tonesOfStates(palette);
  const text = (v: number) => (measure === "loss" ? (v === 0 ? "0" : share(v).replace(/\.?0+ %$/, " %")) : duration(v).replace(/\.0+ /, " "));
  const gradient = `linear-gradient(to right, ${tones.filter((_, i) => i % 7 === 0).map((t) => t.colour).join(", ")})`;
  return (
    <div class="legend small soft">
      {ticks.length > 0 && (
        <div class="legend-scale">
          <span>{measureWords[measure].short}{time ? `, ${time}` : measure === "loss" && ", 10 s"}</span>
          {ticks.length === 1
            ? <span class="legend-state"><i style={{ background: tones[0]?.colour }} />{text(ticks[0]?.value ?? NaN)}</span>
            : (
              <span class="legend-bar">
                <i style={{ background: gradient }} />
                <span class="legend-ticks">{ticks.map((t) => <span key={t.place} style={{ left: `${t.place * 100}%` }}>{text(t.value)}</span>)}</span>
              </span>
            )}
        </div>
      )}
      {!time && <span class="legend-state"><i style={{ background: states.stale }} />{stateWord("stale")}</span>}
      {!time && <span class="legend-state"><i class="dotted" style={{ background: states.quiet }} />{stateWord("quiet")}</span>}
      <span class="legend-state"><i class="bordered" style={{ background: states.none }} />{stateWord("none")}</span>
    </div>
  );
}
