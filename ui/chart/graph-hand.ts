// The hand on a graph: pointers, fingers and the wheel.
import type { Point } from "./graph-layout.ts";

/** What a hand does. Points are on the screen, CSS pixels from the upper left corner of the graph. */
export interface Handled {
  /** Whether a pointer takes hold of a dot there, rather than of the whole graph. */
  grab: (at: Point) => boolean;
  /** Moves the held dot. */
  carry: (to: Point) => void;
  /** Releases the held dot; moved: not a click. */
  release: (moved: boolean) => void;
  pan: (x: number, y: number) => void;
  zoom: (factor: number, about: Point) => void;
  click: (at: Point) => void;
  /** Points at something; undefined: no longer. */
  point: (at: Point | undefined) => void;
}

const slop = 5; // pixels that a click may move

/** Hand handles the input of one graph until end. */
export class Hand {
  private readonly fingers = new Map<number, Point>();
  private start: Point = { x: 0, y: 0 };
  private far = false;
  private holds = false;
  private readonly off = new AbortController();

  constructor(private readonly element: HTMLElement, private readonly handled: Handled) {
    const { signal } = this.off;
    element.addEventListener("pointerdown", (e) => this.down(e), { signal });
    element.addEventListener("pointermove", (e) => this.move(e), { signal });
    element.addEventListener("pointerup", (e) => this.up(e, true), { signal });
    element.addEventListener("pointercancel", (e) => this.up(e, false), { signal });
    element.addEventListener("pointerleave", () => this.fingers.size === 0 && handled.point(undefined), { signal });
    element.addEventListener("wheel", (e) => this.wheel(e), { signal, passive: false });
  }

  end(): void {
    this.off.abort();
  }

  private place(e: MouseEvent): Point {
    const { left, top } = this.element.getBoundingClientRect();
    return { x: e.clientX - left, y: e.clientY - top };
  }

  private down(e: PointerEvent): void {
    if (e.pointerType === "mouse" && e.button !== 0) return;
    const at = this.place(e);
    this.element.setPointerCapture(e.pointerId);
    this.fingers.set(e.pointerId, at);
    if (this.fingers.size > 1) {
      this.drop();
      this.far = true; // a pinch is no click
      return;
    }
    this.start = at;
    this.far = false;
    if (e.pointerType !== "mouse") this.handled.point(at);
    this.holds = this.handled.grab(at);
  }

  private move(e: PointerEvent): void {
    const at = this.place(e);
    const before = this.fingers.get(e.pointerId);
    if (!before) {
      if (e.pointerType === "mouse") this.handled.point(at);
      return;
    }
    if (this.fingers.size > 1) {
      this.pinch(e.pointerId, before, at);
    } else {
      const first = !this.far;
      this.far ||= Math.hypot(at.x - this.start.x, at.y - this.start.y) > slop;
      if (!this.far) return;
      if (first) this.handled.point(undefined);
      if (this.holds) this.handled.carry(at);
      else if (first) this.handled.pan(at.x - this.start.x, at.y - this.start.y);
      else this.handled.pan(at.x - before.x, at.y - before.y);
    }
    this.fingers.set(e.pointerId, at);
  }

  private pinch(id: number, before: Point, at: Point): void {
    const other = [...this.fingers].find(([finger]) => finger !== id)?.[1];
    if (!other) return;
    const [was, is] = [before, at].map((p) => Math.hypot(p.x - other.x, p.y - other.y)) as [number, number];
    this.handled.pan((at.x - before.x) / 2, (at.y - before.y) / 2);
    if (was > 1) this.handled.zoom(is / was, { x: (at.x + other.x) / 2, y: (at.y + other.y) / 2 });
  }

  private up(e: PointerEvent, done: boolean): void {
    if (!this.fingers.delete(e.pointerId)) return;
    if (this.fingers.size > 0) return;
    this.drop();
    if (done && !this.far) this.handled.click(this.place(e));
  }

  private drop(): void {
    if (this.holds) this.handled.release(this.far);
    this.holds = false;
  }

  private wheel(e: WheelEvent): void {
    e.preventDefault();
    const lines = e.deltaMode === 1 ? 16 : 1;
    const turn = Math.max(-120, Math.min(120, e.deltaY * lines));
    this.handled.zoom(Math.exp(-turn * 0.003), this.place(e));
  }
}
