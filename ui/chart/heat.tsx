// A heat map of histograms over time.
import { useRef } from "preact/hooks";
import { count, duration, moment, share } from "../data/quantity.ts";
import { dark } from "../part/theme.tsx";
import { bucketAt, total, upperAt } from "./bucket.ts";
import { axisOf, CellsPainter } from "./cells.ts";
import { sequential } from "./colour.ts";
import { ColourKey } from "./colour-key.tsx";
import { indexAt, within } from "./ends.ts";
import { Frame, type Pointed } from "./frame.tsx";
import type { HeatMapProps, Line } from "./plot.ts";

const label = "Share of packets";
const noLines: Line[] = [{ label: "", values: [], colour: "", hidden: true }]; // without a line uPlot has no value axis

/** HeatMap draws a histogram per window; the colour is the share of the packets in the window. */
export function HeatMap(props: HeatMapProps) {
  const painter = useRef(new CellsPainter()).current;
  const [start, end] = within(props.times, props.range);
  const { scale, ends } = axisOf(props.buckets.slice(start, end));
  let last = end - 1;
  while (last >= start && !props.buckets[last]?.counts.length) last--;
  return (
    <Frame {...props} lines={noLines} scale={scale} ends={ends} bare={last < start} paint={(ctx, view) => painter.paint(ctx, view, props, dark.value)}
      legend={() => <ColourKey scale="sequential" label={label} low="0 %" high="100 %" />} when=""
      names={() => [{ label: `${label}, 0 to 100 %`, scale: Array.from({ length: 40 }, (_, i) => sequential(i / 39, dark.value)) }]}
      tip={(at) => <Cell {...props} at={at} />}
      latest={() => mostAt(props, last)} />
  );
}

/** Tooltip: a range of delay and the number of packets in it. */
function Cell({ times, buckets, step, format, at }: HeatMapProps & { at: Pointed }) {
  if (at.value === undefined) return null;
  const i = indexAt(times, at.time + 0.5) - 1;
  const histogram = buckets[i];
  const from = times[i] ?? 0;
  if (!histogram || at.time >= from + step || histogram.counts.length === 0) return <p>No packets at {moment(at.time)}.</p>;
  const all = total(histogram);
  const k = bucketAt(histogram, at.value);
  if (k < 0) return <><p><b>{format(at.value)}</b>: no packets</p><p class="soft">{count(Math.round(all))} packets in {duration(step * 1e6)} from {moment(from)}</p></>;
  const n = histogram.counts[k] ?? 0;
  return (
    <>
      <p><b>{format(histogram.bounds[k] ?? NaN)} to {format(upperAt(histogram, k))}</b></p>
      <p>{count(Math.round(n))} of {count(Math.round(all))} packets, {share(n / all)}</p>
      <p class="soft">{duration(step * 1e6)} from {moment(from)}</p>
    </>
  );
}

function mostAt({ buckets, format }: HeatMapProps, i: number): string {
  const histogram = buckets[i];
  if (!histogram) return "";
  let most = 0;
  for (let k = 1; k < histogram.counts.length; k++) if ((histogram.counts[k] ?? 0) > (histogram.counts[most] ?? 0)) most = k;
  return `Mode of the latest window: ${format(histogram.bounds[most] ?? NaN)} to ${format(upperAt(histogram, most))}.`;
}
