// Zooming and panning by mouse, touch and keyboard. It only asks for a range; the
// owner of the chart shows it.
import type uPlot from "uplot";
import type { Range } from "./plot.ts";

/** Gestures listens to one chart until it ends. */
export class Gestures {
  constructor(readonly plot: uPlot, readonly box: HTMLElement, readonly range: () => Range, readonly ask: (range: Range) => void) {}
  follow(): void {}
  end(): void {}
  key(event: KeyboardEvent): void {
    const { from, to } = this.range();
    const step = (to - from) / 10;
    if (event.key === "ArrowLeft") this.ask({ from: from - step, to: to - step });
    else if (event.key === "ArrowRight") this.ask({ from: from + step, to: to + step });
    else return;
    event.preventDefault();
  }
}
