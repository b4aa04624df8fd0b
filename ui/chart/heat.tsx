// A histogram over time.
import { useRef } from "preact/hooks";
import { Frame } from "./frame.tsx";
import { HeatPainter } from "./buckets.ts";
import type { HeatMapProps } from "./plot.ts";

/** HeatMap draws a histogram for each time: colour is the share of the packets of that time. */
export function HeatMap(props: HeatMapProps) {
  const painter = useRef<HeatPainter | undefined>(undefined);
  if (painter.current) painter.current.set(props);
  else painter.current = new HeatPainter(props);
  return <Frame {...props} painter={painter.current} bare={!props.buckets.some((b) => b.counts.length > 0)} legend={() => null} latest={() => ""} />;
}
