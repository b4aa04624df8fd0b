// The names of lines and their values.
import type { Line } from "./plot.ts";

/** More lines than this, and the legend names only those that are highest. */
const all = 12;
const highest = 8;

interface LegendProps {
  lines: Line[];
  /** Index of the values; -1: none. */
  at: number;
  format: (value: number) => string;
}

/** Legend shows the lines in their styles with their values. */
export function Legend({ lines, at, format }: LegendProps) {
  if (lines.length <= all) return <>{lines.map((line) => <Entry key={line.label} line={line} value={format(line.values[at] ?? NaN)} />)}</>;
  const top = highestAt(lines, at, highest);
  return (
    <>
      <span class="chart-of">Highest {top.length} of {lines.length}:</span>
      <span class="chart-many">{top.map((line, i) => <Entry key={i} line={line} value={format(line.values[at] ?? NaN)} />)}</span>
    </>
  );
}

/** The lines with the highest values at an index, highest first. */
function highestAt(lines: Line[], at: number, most: number): Line[] {
  const value = (line: Line) => line.values[at] ?? NaN;
  const rank = (line: Line) => (Number.isFinite(value(line)) ? value(line) : -Infinity);
  return lines.filter((line) => !line.hidden).sort((a, b) => rank(b) - rank(a)).slice(0, most);
}

function Entry({ line, value }: { line: Line; value: string }) {
  return (
    <span class="chart-entry" title={line.label}>
      <svg width="18" height="10" aria-hidden="true" style={{ stroke: `var(${line.colour})` }}>
        {line.hidden
          ? <path d="M0 5H18" fill="none" stroke-width="9" opacity="0.28" />
          : <path d={line.steps ? "M0 8H9V2H18" : "M0 5H18"} fill="none" stroke-width={line.width ?? 1.5} stroke-dasharray={line.dash?.join(" ")} />}
      </svg>
      <span class="chart-name">{line.label}</span> <span class="chart-value">{value}</span>
    </span>
  );
}
