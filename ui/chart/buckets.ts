// Paints histograms over time.
import { axisEnds, within } from "./ends.ts";
import type { HeatMapProps, Range } from "./plot.ts";
import { linear, logarithmic, type Scale } from "./scale.ts";
import type { Painter, View } from "./stage.ts";

type HeatProps = Pick<HeatMapProps, "times" | "buckets" | "step">;

/** HeatPainter paints what its chart was last given. */
export class HeatPainter implements Painter {
  scale: Scale = linear;
  constructor(private props: HeatProps) {}

  set(props: HeatProps): void {
    this.props = props;
  }

  ends(range: Range): [number, number] {
    const { times, buckets } = this.props;
    const [start, end] = within(times, range);
    let low = Infinity;
    let high = -Infinity;
    for (let i = start; i < end; i++) {
      const bounds = buckets[i]?.bounds ?? [];
      if (bounds.length === 0) continue;
      low = Math.min(low, bounds[0] ?? Infinity);
      high = Math.max(high, (bounds[bounds.length - 1] ?? 0) * 1.04);
    }
    const log = low > 0 && high / low > 4;
    this.scale = log ? logarithmic : linear;
    return axisEnds(low, high, log ? "log" : "fit");
  }

  paint(ctx: CanvasRenderingContext2D, view: View): void {
    const { times, buckets, step } = this.props;
    const [start, end] = within(times, view.range);
    ctx.fillStyle = view.colour("--out");
    for (let i = start; i < end; i++) {
      const { bounds, counts } = buckets[i] ?? { bounds: [], counts: [] };
      const x = view.x(times[i] ?? 0);
      const wide = view.x((times[i] ?? 0) + step) - x;
      let sum = 0;
      for (let k = 0; k < counts.length; k++) sum += counts[k] ?? 0;
      for (let k = 0; k < bounds.length; k++) {
        const from = bounds[k] ?? 0;
        const bottom = view.y(from);
        ctx.globalAlpha = Math.sqrt((counts[k] ?? 0) / sum);
        ctx.fillRect(x, bottom, wide, view.y(from + Math.abs(from) / 32) - bottom);
      }
    }
    ctx.globalAlpha = 1;
  }
}
