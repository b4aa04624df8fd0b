// Zooming and panning by mouse, touch and keyboard. It only requests ranges; the
// owner of the chart applies them.
import type uPlot from "uplot";
import type { Range } from "./plot.ts";

const leastSpan = 1000;
const mostSpan = 400 * 86400e3;
const slop = 5; // pixels that a click may move

/** A range zoomed around its centre or edge, within limits. */
export function zoomed(range: Range, factor: number, about = (range.from + range.to) / 2): Range {
  const span = range.to - range.from;
  const f = Math.min(mostSpan / span, Math.max(leastSpan / span, factor));
  return { from: about - (about - range.from) * f, to: about + (range.to - about) * f };
}

/** A range moved by a fraction of its length. */
export function moved(range: Range, share: number): Range {
  const by = (range.to - range.from) * share;
  return { from: range.from + by, to: range.to + by };
}

/** The range in which two fingers stay on their initial times. */
export function pinched(times: [number, number], xs: [number, number], width: number): Range {
  const perPixel = (times[1] - times[0]) / (xs[1] - xs[0]);
  const from = times[0] - xs[0] * perPixel;
  return { from, to: from + width * perPixel };
}

/** The range that a key requests. */
export function keyed(key: string, range: Range, now: number): Range | undefined {
  switch (key) {
    case "ArrowLeft": return moved(range, -0.1);
    case "ArrowRight": return moved(range, 0.1);
    case "+": case "=": return zoomed(range, 0.5);
    case "-": case "_": return zoomed(range, 2);
    case "Home": case "End": return { from: now - (range.to - range.from), to: now };
  }
  return undefined;
}

interface Finger {
  x: number;
  y: number;
  /** Time at which it was placed. */
  time: number;
}

type Doing = "nothing" | "select" | "pan" | "pinch";

/** Gestures handles the input of one chart until end. */
export class Gestures {
  private fingers = new Map<number, Finger>();
  private doing: Doing = "nothing";
  private start = { x: 0, time: 0, range: { from: 0, to: 0 } };
  private far = false;
  private asked: Range | undefined;
  private frame = 0;
  private tap = { at: 0, x: 0 };
  private readonly off = new AbortController();

  constructor(private plot: uPlot, private range: () => Range, private ask: ((range: Range) => void)) {
    const { over } = plot;
    const { signal } = this.off;
    over.addEventListener("pointerdown", (e) => this.down(e), { signal });
    over.addEventListener("pointermove", (e) => this.move(e), { signal });
    over.addEventListener("pointerup", (e) => this.up(e), { signal });
    over.addEventListener("pointercancel", (e) => this.lost(e), { signal });
    over.addEventListener("dblclick", () => performance.now() - this.tap.at > 600 && this.ask(zoomed(this.range(), 2)), { signal });
    over.addEventListener("wheel", (e) => this.wheel(e), { signal, passive: false });
  }

  end(): void {
    cancelAnimationFrame(this.frame);
    this.off.abort();
  }

  /** follow keeps a selection at its times while the range slides. */
  follow(): void {
    const finger = this.fingers.values().next().value;
    if (this.doing === "select" && this.far && finger) this.showSelection(finger.x);
  }

  key(event: KeyboardEvent): void {
    if (event.key === "Escape" && this.doing === "select") return this.clear();
    if (event.ctrlKey || event.metaKey || event.altKey) return; // browser shortcuts
    const range = keyed(event.key, this.asked ?? this.range(), Date.now());
    if (!range) return;
    event.preventDefault();
    this.later(range);
  }

  private get width(): number {
    return Math.max(1, this.plot.over.clientWidth);
  }

  private timeAt(x: number): number {
    const { from, to } = this.range();
    return from + (x / this.width) * (to - from);
  }

  // Request once per frame.
  private later(range: Range): void {
    this.asked = range;
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const asked = this.asked;
      this.asked = undefined;
      if (asked) this.ask(asked);
    });
  }

  private place(e: PointerEvent | WheelEvent): { x: number; y: number } {
    const { left, top } = this.plot.over.getBoundingClientRect();
    return { x: Math.max(0, Math.min(this.width, e.clientX - left)), y: e.clientY - top };
  }

  private down(e: PointerEvent): void {
    if (e.pointerType === "mouse" && e.button > 1) return;
    const at = this.place(e);
    this.plot.over.setPointerCapture(e.pointerId);
    this.fingers.set(e.pointerId, { ...at, time: this.timeAt(at.x) });
    this.start = { x: at.x, time: this.timeAt(at.x), range: this.range() };
    this.far = false;
    if (this.fingers.size === 2) {
      this.clear();
      this.doing = "pinch";
      for (const finger of this.fingers.values()) finger.time = this.timeAt(finger.x);
    } else if (this.fingers.size === 1) {
      this.doing = e.shiftKey || e.button === 1 ? "pan" : "select";
    }
    if (e.button === 1) e.preventDefault(); // no autoscroll
  }

  private move(e: PointerEvent): void {
    const finger = this.fingers.get(e.pointerId);
    if (!finger) return;
    const at = this.place(e);
    finger.x = at.x;
    finger.y = at.y;
    if (Math.abs(at.x - this.start.x) > slop) this.far = true;
    if (e.pointerType !== "mouse") this.plot.setCursor({ left: at.x, top: at.y });
    if (this.doing === "pinch") this.pinch();
    else if (this.far && this.doing === "pan") this.later(moved(this.start.range, (this.start.x - at.x) / this.width));
    else if (this.far && this.doing === "select") this.showSelection(at.x);
  }

  private pinch(): void {
    const [a, b] = [...this.fingers.values()].sort((p, q) => p.time - q.time);
    if (!a || !b) return;
    const apart = Math.abs(b.x - a.x) > 24 && b.time > a.time;
    if (apart && b.x > a.x) {
      const range = pinched([a.time, b.time], [a.x, b.x], this.width);
      this.later(zoomed(range, 1));
    }
  }

  private up(e: PointerEvent): void {
    const finger = this.fingers.get(e.pointerId);
    if (!finger) return;
    this.fingers.delete(e.pointerId);
    const { doing, far } = this;
    if (this.fingers.size === 0) this.clear();
    if (doing === "select" && far) this.select(finger.x);
    else if (doing === "select" && e.pointerType === "touch") this.tapped(finger.x);
  }

  private select(x: number): void {
    const [from, to] = [this.start.time, this.timeAt(x)].sort((a, b) => a - b) as [number, number];
    if (to - from >= ((this.range().to - this.range().from) / this.width) * slop) this.ask(zoomed({ from, to }, 1));
  }

  // Not every browser turns a double tap into a double click.
  private tapped(x: number): void {
    const now = performance.now();
    const twice = now - this.tap.at < 350 && Math.abs(x - this.tap.x) < 30;
    this.tap = { at: now, x };
    if (twice) this.ask(zoomed(this.range(), 2));
  }

  private lost(e: PointerEvent): void {
    this.fingers.delete(e.pointerId);
    this.clear();
  }

  private clear(): void {
    this.doing = "nothing";
    this.plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  private showSelection(x: number): void {
    const { from, to } = this.range();
    const begin = Math.max(0, Math.min(this.width, ((this.start.time - from) / (to - from)) * this.width));
    this.plot.setSelect({ left: Math.min(begin, x), top: 0, width: Math.abs(x - begin), height: this.plot.over.clientHeight }, false);
  }

  // The plain wheel scrolls the page.
  private wheel(e: WheelEvent): void {
    const base = this.asked ?? this.range();
    const lines = e.deltaMode === 1 ? 16 : 1;
    if (e.ctrlKey || e.metaKey) {
      const { from, to } = base;
      const about = from + (this.place(e).x / this.width) * (to - from);
      const turn = Math.max(-120, Math.min(120, e.deltaY * lines));
      this.later(zoomed(base, Math.exp(turn * 0.003), about));
    } else {
      const sideways = e.shiftKey && e.deltaX === 0 ? e.deltaY : e.deltaX;
      if (Math.abs(sideways) <= Math.abs(e.shiftKey ? 0 : e.deltaY)) return;
      this.later(moved(base, (sideways * lines) / this.width));
    }
    e.preventDefault();
  }
}
