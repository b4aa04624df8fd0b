// Number of events over time: a bar for each part of the range, which narrows
// the range to itself.
import { useRef, useState } from "preact/hooks";
import { moment } from "../../data/quantity.ts";
import type { Bin } from "./bins.ts";

const clockOnly = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayOnly = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

const of = (n: number, one: string, many: string): string => `${n} ${n === 1 ? one : many}`;

/** A bar as text. */
function binWords(bin: Bin): string {
  const parts = [bin.error && of(bin.error, "error", "errors"), bin.warning && of(bin.warning, "warning", "warnings"), bin.info && of(bin.info, "note", "notes")];
  return `${moment(bin.from)} to ${moment(bin.to)}: ${parts.filter(Boolean).join(", ") || "no events"}`;
}

/** Strip shows bins; onPart is called with the range of the selected one. */
export function Strip({ bins, onPart }: { bins: readonly Bin[]; onPart: (from: number, to: number) => void }) {
  const [at, setAt] = useState(bins.length - 1);
  const box = useRef<HTMLDivElement>(null);
  const highest = Math.max(1, ...bins.map((b) => b.info + b.warning + b.error));
  const here = Math.min(at, bins.length - 1);
  const move = (event: KeyboardEvent): void => {
    const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: bins.length - 1 }[event.key];
    if (to === undefined || to < 0 || to >= bins.length) return;
    event.preventDefault();
    setAt(to);
    box.current?.querySelectorAll("button")[to]?.focus();
  };
  const ends = [bins[0], bins[Math.floor(bins.length / 2)], bins.at(-1)];
  const long = (bins.at(-1)?.to ?? 0) - (bins[0]?.from ?? 0) > 2 * 86_400_000;
  return (
    <div class="strip">
      <div class="strip-bars" ref={box} role="group" aria-label="Events over time; a bar narrows the range to its period" onKeyDown={move}>
        {bins.map((bin, i) => {
          const all = bin.info + bin.warning + bin.error;
          return (
            <button key={bin.from} type="button" tabIndex={i === here ? 0 : -1} aria-label={binWords(bin)} title={binWords(bin)} aria-disabled={!all}
              onFocus={() => setAt(i)} onClick={() => all && onPart(bin.from, bin.to)}>
              {(["info", "warning", "error"] as const).map((level) => bin[level] > 0 && <i key={level} class={level} style={{ height: `${Math.max((bin[level] / highest) * 100, 5)}%` }} />)}
            </button>
          );
        })}
      </div>
      <div class="strip-axis" aria-hidden="true">{ends.map((b, i) => <span key={i}>{b && (long ? dayOnly : clockOnly).format(i === 2 ? b.to : b.from)}</span>)}</div>
    </div>
  );
}
