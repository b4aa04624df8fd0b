// A line chart over time.
import { bytes } from "../data/quantity.ts";
import { lineEnds, nearest, within } from "./ends.ts";
import { Frame, type Pointed } from "./frame.tsx";
import { Legend } from "./legend.tsx";
import type { Line, TimeChartProps } from "./plot.ts";
import { binary, linear, logarithmic } from "./scale.ts";

/** TimeChart draws lines, bands between them and event marks over time. */
export function TimeChart(props: TimeChartProps) {
  const { times, lines, format } = props;
  const [start, end] = within(times, props.range);
  const last = latestIndex(lines, start, end);
  const legend = (pointed: Pointed | undefined) => {
    const i = pointed ? nearest(times, pointed.time) : last;
    return <Legend lines={lines} at={i} format={format} />;
  };
  return (
    <Frame {...props} scale={props.scale === "log" ? logarithmic : format === bytes ? binary : linear} ends={lineEnds(props)} bare={last < 0} legend={legend}
      names={() => named(lines).map((line) => ({ label: line.label, colour: line.colour, dash: line.dash, area: line.hidden }))}
      latest={() => named(lines).map((line) => `${line.label} ${format(line.values[last] ?? NaN)}`).join(", ")} />
  );
}

/** The last index with a value; -1: none. */
function latestIndex(lines: Line[], start: number, end: number): number {
  for (let i = end - 1; i >= start; i--) {
    for (const line of lines) if (Number.isFinite(line.values[i])) return i;
  }
  return -1;
}

/** Limits the names for screen readers and images. */
const named = (lines: Line[]): Line[] => (lines.length > 12 ? lines.slice(0, 8) : lines);
