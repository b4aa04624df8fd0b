// A graph drawn on two canvases: the graph, and above it the element under the pointer. The drawing code is our own
// because libraries block the page for hundreds of milliseconds when they draw a graph of hundreds of nodes without
// a graphics processor.
import { Hand } from "./graph-hand.ts";
import type { Point } from "./graph-layout.ts";
import { paint, paintTarget, type Easel } from "./graph-paint.ts";
import { extentOf, nothing, sceneOf, type Picture, type Placed, type Scene } from "./graph-scene.ts";
import { textSize, writtenOf, type Written } from "./graph-text.ts";
import { fitted, inGraph, onScreen, targetAt, zoomedAt, type Size, type Target, type View } from "./graph-view.ts";

/** User actions. */
export interface Answers {
  dot?: (id: string) => void;
  nothing?: () => void;
  /** The user moved a dot. */
  moved?: (id: string, to: Point) => void;
  /** The first picture is drawn. */
  ready?: () => void;
}

/** Drawing draws pictures in an element, once per frame. */
export class Drawing {
  private scene: Scene = nothing;
  private view: View = { zoom: 1, x: 0, y: 0 };
  private touched = false; // the user chose the view
  private labels: Written[] | undefined; // undefined: outdated
  private labelled = 0; // zoom of the labels
  private pointer: Point | undefined; // undefined: elsewhere
  private target: Target | undefined;
  private held: Placed | undefined;
  private frame = 0;
  private readonly widths = new Map<string, number>();
  private readonly colours = new Map<string, string>();
  private readonly graph: Sheet;
  private readonly above: Sheet;
  private readonly tip = document.createElement("div");
  private readonly watch: ResizeObserver;
  private readonly hand: Hand;

  constructor(private readonly element: HTMLElement, private readonly answers: Answers) {
    const colour = (name: string): string => this.colour(name);
    const font = getComputedStyle(element).fontFamily || "sans-serif";
    this.graph = new Sheet(colour, font);
    this.above = new Sheet(colour, font);
    this.tip.className = "graph-tip";
    this.tip.hidden = true;
    this.tip.ariaHidden = "true";
    this.watch = new ResizeObserver(() => (this.touched ? this.later() : this.fit()));
    this.watch.observe(element);
    this.hand = new Hand(element, {
      grab: (at) => {
        const found = targetAt(this.scene, this.view, at);
        this.held = found && "dot" in found ? found.dot : undefined;
        return this.held !== undefined;
      },
      carry: (to) => {
        if (!this.held) return;
        Object.assign(this.held.at, inGraph(this.view, to));
        this.later();
      },
      release: (moved) => {
        if (moved && this.held) answers.moved?.(this.held.dot.id, { ...this.held.at });
        if (moved) this.labels = undefined;
        this.held = undefined;
        this.later();
      },
      pan: (x, y) => this.pan(x, y),
      zoom: (factor, about) => this.look(zoomedAt(this.view, factor, about)),
      click: (at) => this.click(at),
      point: (at) => {
        this.pointer = at;
        this.aim();
      },
    });
  }

  /** Shows a picture; places has the position of each dot. */
  show(picture: Picture, places: ReadonlyMap<string, Point>): void {
    const before = this.scene.dots.length;
    const { held } = this;
    this.scene = sceneOf(picture, places);
    this.held = held && this.scene.dots.find(({ dot }) => dot.id === held.dot.id);
    if (held && this.held) Object.assign(this.held.at, held.at);
    this.labels = undefined;
    this.aim();
    if (this.scene.dots.length !== before && !this.touched) this.fit();
    else this.later();
  }

  /** Rereads the colours of the style sheet. */
  recolour(): void {
    this.colours.clear();
    this.later();
  }

  /** Fits the graph into the view. */
  fit(): void {
    const whole = extentOf(this.scene.dots);
    const size = this.size();
    this.touched = false;
    if (whole && size.width > 0) this.view = fitted(whole, size);
    this.later();
  }

  zoom(factor: number): void {
    const { width, height } = this.size();
    this.look(zoomedAt(this.view, factor, { x: width / 2, y: height / 2 }));
  }

  pan(x: number, y: number): void {
    this.look({ ...this.view, x: this.view.x + x, y: this.view.y + y });
  }

  end(): void {
    cancelAnimationFrame(this.frame);
    this.watch.disconnect();
    this.hand.end();
    for (const part of [this.graph.canvas, this.above.canvas, this.tip]) part.remove();
  }

  private look(view: View): void {
    this.touched = true;
    this.view = view;
    this.aim();
    this.later();
  }

  private click(at: Point): void {
    const target = targetAt(this.scene, this.view, at);
    if (!target) this.answers.nothing?.();
    else if ("dot" in target) this.answers.dot?.(target.dot.dot.id);
  }

  /** Highlights and names what is under the pointer. */
  private aim(): void {
    const before = this.target;
    const target = this.pointer && targetAt(this.scene, this.view, this.pointer);
    this.target = target;
    if (!target && !before) return;
    if (target && this.pointer) this.name(target, this.pointer);
    else this.tip.hidden = true;
    this.element.style.cursor = target && "dot" in target && isLarge(target.dot) ? "pointer" : "";
    paintTarget(this.above.sized(this.size()), target, this.view);
  }

  /** Shows the tooltip of a target, beside it and within the element. */
  private name(target: Target, at: Point): void {
    const { tip } = this;
    const text = "dot" in target ? target.dot.dot.title : target.stroke.stroke.title;
    if (tip.textContent !== text) tip.textContent = text;
    tip.hidden = false;
    const { width, height } = this.size();
    const { x, y } = "dot" in target ? onScreen(this.view, target.dot.at) : at;
    const [right, below] = [x + 18, y + 18];
    tip.style.left = `${Math.max(0, Math.min(right, width - tip.offsetWidth - 2))}px`;
    tip.style.top = `${below + tip.offsetHeight > height ? Math.max(0, y - 18 - tip.offsetHeight) : below}px`;
  }

  private size(): Size {
    return { width: this.element.clientWidth, height: this.element.clientHeight };
  }

  private later(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    const size = this.size();
    if (size.width === 0 || this.scene === nothing) return;
    const near = Math.abs(Math.log(this.view.zoom / this.labelled)) < 0.06; // few labels differ
    if (!this.labels || !near) {
      this.labels = writtenOf(this.scene, this.view, (text) => this.width(text));
      this.labelled = this.view.zoom;
    }
    paint(this.graph.sized(size), this.scene, this.view, this.labels);
    if (this.graph.canvas.isConnected) return;
    this.element.append(this.graph.canvas, this.above.canvas, this.tip);
    this.answers.ready?.();
  }

  private width(text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      const { ctx, font } = this.graph;
      ctx.font = `600 ${textSize}px ${font}`;
      this.widths.set(text, (width = ctx.measureText(text).width));
    }
    return width;
  }

  private colour(name: string): string {
    let colour = this.colours.get(name);
    if (colour === undefined) this.colours.set(name, (colour = getComputedStyle(this.element).getPropertyValue(name).trim()));
    return colour;
  }
}

const isLarge = ({ dot: { kind } }: Placed): boolean => kind === "agent" || kind === "group";

/** A canvas of the size of the graph, with as many pixels as the device. */
class Sheet implements Easel {
  readonly canvas = document.createElement("canvas");
  readonly ctx: CanvasRenderingContext2D;
  size: Size = { width: 0, height: 0 };

  constructor(readonly colour: (name: string) => string, readonly font: string) {
    const ctx = this.canvas.getContext("2d");
    if (!ctx) throw new Error("this browser gives no canvas");
    this.ctx = ctx;
  }

  sized(size: Size): this {
    const ratio = window.devicePixelRatio;
    const [width, height] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    this.size = size;
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    return this;
  }
}
