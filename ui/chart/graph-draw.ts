// A graph drawn by Cytoscape.js, which is loaded with the first graph.
import type { Core, EventObject, NodeSingular, StylesheetJson } from "cytoscape";
import { readable, type Box, type Label } from "./graph-label.ts";
import { apart, type Point } from "./graph-layout.ts";

/** A node. */
export interface Dot {
  id: string;
  kind: "agent" | "router" | "unknown" | "group";
  label: string;
  /** Tooltip. */
  title: string;
  /** Of two overlapping labels, that of the larger weight is shown. */
  weight: number;
}

/** An edge. */
export interface Stroke {
  id: string;
  from: string;
  to: string;
  /** Arrows at both ends. */
  both: boolean;
  /** Name of a CSS property, such as "--heat-1". */
  colour: string;
  /** CSS pixels. */
  width: number;
  dashed: boolean;
  /** Shown while the stroke is highlighted. */
  label: string;
  /** Tooltip. */
  title: string;
}

/** Dots and strokes, and which of them are highlighted. */
export interface Picture {
  dots: Dot[];
  strokes: Stroke[];
  /** Ids of highlighted dots and strokes; empty: none, and none is dimmed. */
  lit: ReadonlySet<string>;
  /** Ids of dots with a thick border, such as the ends of a path. */
  ends: ReadonlySet<string>;
}

/** User actions. */
export interface Answers {
  dot?: (id: string) => void;
  stroke?: (id: string) => void;
  nothing?: () => void;
  /** The user moved a dot. */
  moved?: (id: string, to: Point) => void;
}

const textSize = 12;
const margin = 76; // for the labels of the outermost dots
const largest = 1.7; // zoom limit for small graphs

/** Creates an empty drawing in an element. */
export async function draw(element: HTMLElement, answers: Answers): Promise<Drawing> {
  const { default: cytoscape } = await import("cytoscape");
  standIn();
  return new Drawing(cytoscape({ container: element, style: [], minZoom: 0.04, maxZoom: 4, autounselectify: true, boxSelectionEnabled: false }), element, answers);
}

/** Drawing applies differences only. */
export class Drawing {
  private picture: Picture = { dots: [], strokes: [], lit: new Set(), ends: new Set() };
  private scaled = 0;
  private touched = false;
  private stale = true; // labels are outdated
  private frame = 0;
  private readonly widths = new Map<string, number>();
  private readonly pen = document.createElement("canvas").getContext("2d");
  private readonly watch: ResizeObserver;

  constructor(private readonly cy: Core, private readonly element: HTMLElement, answers: Answers) {
    cy.on("tap", (e: EventObject) => {
      if (e.target === cy) answers.nothing?.();
      else if (e.target.isNode()) answers.dot?.(e.target.id());
      else answers.stroke?.(e.target.id());
    });
    cy.on("mouseover", "node, edge", (e) => void e.target.addClass("under"));
    cy.on("mouseout", "node, edge", (e) => void e.target.removeClass("under"));
    cy.on("dragfree", "node", (e) => answers.moved?.(e.target.id(), { ...e.target.position() }));
    cy.on("dragfree", () => this.relabel());
    cy.on("dragpan pinchzoom scrollzoom", () => (this.touched = true));
    cy.on("zoom", () => this.rescale());
    this.watch = new ResizeObserver(() => {
      cy.resize();
      if (!this.touched) this.fit();
    });
    this.watch.observe(element);
    this.paint();
  }

  /** Shows a picture; places has the position of each dot. */
  show(picture: Picture, places: ReadonlyMap<string, Point>): void {
    const { cy } = this;
    const known = cy.nodes().length;
    const want = new Set([...picture.dots, ...picture.strokes].map((x) => x.id));
    cy.batch(() => {
      cy.elements().forEach((e) => void (want.has(e.id()) || e.remove()));
      for (const dot of picture.dots) this.place(dot, places.get(dot.id) ?? { x: 0, y: 0 });
      for (const stroke of picture.strokes) this.join(stroke);
    });
    const fewer = cy.nodes().length !== known;
    this.picture = picture;
    this.light(picture.lit, picture.ends);
    if (fewer && !this.touched) this.fit();
    this.stale = true;
    this.rescale(fewer);
  }

  private place(dot: Dot, at: Point): void {
    const old = this.cy.getElementById(dot.id);
    if (old.empty()) {
      this.cy.add({ group: "nodes", data: { ...dot, written: "", size: 26, font: textSize }, position: { ...at } });
      this.scaled = 0;
      return;
    }
    if (old.data("label") !== dot.label) old.data({ label: dot.label, title: dot.title });
    const here = old.position();
    if (!old.grabbed() && (here.x !== at.x || here.y !== at.y)) old.position({ ...at });
  }

  private join(stroke: Stroke): void {
    const old = this.cy.getElementById(stroke.id);
    const data = { label: stroke.label, title: stroke.title, colour: stroke.colour, wide: stroke.width, both: stroke.both ? 1 : 0, dashed: stroke.dashed ? 1 : 0, source: stroke.from, target: stroke.to };
    if (old.nonempty() && (old.data("source") !== stroke.from || old.data("target") !== stroke.to)) old.remove();
    else if (old.nonempty()) {
      for (const [key, value] of Object.entries(data)) if (old.data(key) !== value) old.data(key, value);
      return;
    }
    this.cy.add({ group: "edges", data: { id: stroke.id, ...data, written: "", thick: stroke.width, font: textSize } });
    this.scaled = 0;
  }

  private light(lit: ReadonlySet<string>, ends: ReadonlySet<string>): void {
    this.cy.batch(() => {
      this.cy.elements().forEach((e) => {
        e.toggleClass("lit", lit.has(e.id()));
        e.toggleClass("dim", lit.size > 0 && !lit.has(e.id()));
        e.toggleClass("end", ends.has(e.id()));
      });
    });
  }

  /** Rereads the colours of the style sheet. */
  paint(): void {
    this.cy.style(styleOf(this.element));
  }

  /** Fits the graph into the view. */
  fit(): void {
    const { cy } = this;
    if (cy.nodes().empty() || cy.width() === 0) return;
    // Labels keep their size on the screen and are not part of the fitted box.
    const box = cy.nodes().boundingBox({ includeLabels: false });
    const room = (length: number): number => length - 2 * Math.min(margin, length / 7);
    const zoom = Math.min(largest, room(cy.width()) / Math.max(1, box.w), room(cy.height()) / Math.max(1, box.h));
    cy.viewport({ zoom, pan: { x: cy.width() / 2 - (zoom * (box.x1 + box.x2)) / 2, y: cy.height() / 2 - (zoom * (box.y1 + box.y2)) / 2 } });
    this.touched = false;
  }

  zoom(factor: number): void {
    this.touched = true;
    const { cy } = this;
    cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
  }

  pan(x: number, y: number): void {
    this.touched = true;
    this.cy.panBy({ x, y });
  }

  /** Labels and lines keep their size on the screen at any zoom. */
  private rescale(force = false): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const zoom = this.cy.zoom();
      if (!force && this.scaled > 0 && Math.abs(Math.log(zoom / this.scaled)) < 0.06) {
        if (this.stale) this.relabel();
        return;
      }
      this.scaled = zoom;
      const size = Math.min(34, Math.max(26 * zoom, Math.min(10, apart * zoom * 0.75))) / zoom;
      this.cy.batch(() => {
        this.cy.nodes().forEach((n) => void n.data({ size: n.data("kind") === "agent" || n.data("kind") === "group" ? size * 1.1 : size * 0.85, font: textSize / zoom }));
        this.cy.edges().forEach((e) => void e.data({ thick: (e.data("wide") * Math.min(1, 0.35 + zoom * 0.65)) / zoom, font: textSize / zoom }));
      });
      this.relabel();
    });
  }

  private width(text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      if (this.pen) this.pen.font = `600 ${textSize}px ${fontOf(this.element)}`;
      width = this.pen?.measureText(text).width ?? text.length * 7;
      this.widths.set(text, width);
    }
    return width;
  }

  private relabel(): void {
    this.stale = false;
    const weights = new Map(this.picture.dots.map((d) => [d.id, d.weight]));
    const labels: Label[] = [];
    const dots: Box[] = [];
    const whole = this.cy.nodes().boundingBox({ includeLabels: false });
    const middle = { x: (whole.x1 + whole.x2) / 2, y: (whole.y1 + whole.y2) / 2 };
    this.cy.batch(() => this.cy.nodes().forEach((n) => {
      const side = sideOf(n, middle, whole);
      for (const s of ["left", "right", "above"]) n.toggleClass(s, s === side);
      const { x, y } = n.renderedPosition();
      const half = n.renderedHeight() / 2;
      const width = this.width(String(n.data("label"))) + 6;
      const height = textSize + 4;
      const left = side === "left" ? x - half - 4 - width : side === "right" ? x + half + 4 : x - width / 2;
      const top = side === "above" ? y - half - 3 - height : side === "below" ? y + half + 3 : y - height / 2;
      const lit = this.picture.lit.has(n.id()) ? 1e6 : 0;
      labels.push({ id: n.id(), left, top, width, height, weight: lit + (weights.get(n.id()) ?? 0) });
      // A name matters more than a hop without a reply.
      if (n.data("kind") !== "unknown") dots.push({ left: x - half + 1, top: y - half + 1, width: 2 * half - 2, height: 2 * half - 2 });
    }));
    const written = readable(labels, dots);
    this.cy.batch(() => {
      this.cy.edges().forEach((e) => {
        const [from, to] = [e.source().renderedPosition(), e.target().renderedPosition()];
        const text = String(e.data("label"));
        const room = Math.hypot(from.x - to.x, from.y - to.y) - 24;
        const fits = Math.max(...text.split("\n").map((line) => this.width(line))) < room ? text : "";
        if (e.data("written") !== fits) e.data("written", fits);
      });
      this.cy.nodes().forEach((n: NodeSingular) => {
        const text = written.has(n.id()) ? n.data("label") : "";
        if (n.data("written") !== text) n.data("written", text);
      });
    });
  }

  end(): void {
    cancelAnimationFrame(this.frame);
    this.watch.disconnect();
    this.cy.destroy();
  }
}

/** Labels of the outermost dots are placed outside. */
function sideOf(n: NodeSingular, middle: Point, whole: { w: number; h: number }): "left" | "right" | "above" | "below" {
  const kind = n.data("kind");
  if (kind !== "agent" && kind !== "group") return "below";
  const at = n.position();
  const x = (at.x - middle.x) / Math.max(1, whole.w / 2);
  const y = (at.y - middle.y) / Math.max(1, whole.h / 2);
  if (Math.hypot(x, y) < 0.7) return "below";
  if (Math.abs(x) > 0.4) return x < 0 ? "left" : "right";
  return y < 0 ? "above" : "below";
}

/** Cytoscape takes this for its style element, which the content security policy forbids. It has to exist before Cytoscape is loaded. */
function standIn(): void {
  const id = "__________cytoscape_stylesheet";
  if (document.getElementById(id)) return;
  const span = document.createElement("span");
  span.id = id;
  span.hidden = true;
  document.body.append(span);
}

const fontOf = (element: HTMLElement): string => getComputedStyle(element).fontFamily || "sans-serif";

function styleOf(element: HTMLElement): StylesheetJson {
  const css = getComputedStyle(element);
  const colour = (name: string): string => css.getPropertyValue(name).trim() || "#888";
  const written = {
    "font-family": fontOf(element), "font-size": "data(font)", color: colour("--ink"), "text-background-color": colour("--panel"),
    "text-background-opacity": 0.85, "text-background-padding": "1px", "text-background-shape": "roundrectangle",
  } as const;
  const line = (e: { data(key: string): string }): string => colour(e.data("colour"));
  return [
    { selector: "node", style: { ...written, label: "data(written)", width: "data(size)", height: "data(size)", "text-valign": "bottom", "text-margin-y": 3, "background-color": colour("--raised"), "border-color": colour("--line-strong"), "border-width": 2, shape: "ellipse", "overlay-opacity": 0 } },
    { selector: "node[kind = 'agent']", style: { shape: "round-rectangle", "background-color": colour("--accent"), "border-color": colour("--accent"), "font-weight": 600, "z-index": 2 } },
    { selector: "node[kind = 'group']", style: { shape: "round-octagon", "background-color": colour("--accent-soft"), "border-color": colour("--accent"), "border-style": "double", "border-width": 5, "font-weight": 600, "z-index": 2 } },
    { selector: "node[kind = 'unknown']", style: { shape: "diamond", "border-style": "dashed", "border-color": colour("--ink-faint"), "background-color": colour("--sunk") } },
    { selector: ".left", style: { "text-halign": "left", "text-valign": "center", "text-margin-x": -4, "text-margin-y": 0 } },
    { selector: ".right", style: { "text-halign": "right", "text-valign": "center", "text-margin-x": 4, "text-margin-y": 0 } },
    { selector: ".above", style: { "text-valign": "top", "text-margin-y": -3 } },
    { selector: "edge", style: { ...written, label: "", width: "data(thick)", "line-color": line, "target-arrow-color": line, "source-arrow-color": line, "target-arrow-shape": "triangle", "arrow-scale": 0.9, "curve-style": "straight", opacity: 0.9, "overlay-opacity": 0 } },
    { selector: "edge[both = 1]", style: { "source-arrow-shape": "triangle" } },
    { selector: "edge[dashed = 1]", style: { "line-style": "dashed" } },
    { selector: ".dim", style: { opacity: 0.16 } },
    { selector: "node.lit", style: { "border-color": colour("--focus"), "z-index": 20 } },
    { selector: "node.end", style: { "border-color": colour("--focus"), "border-width": 4 } },
    { selector: "edge.lit", style: { label: "data(written)", opacity: 1, "underlay-color": colour("--focus"), "underlay-opacity": 0.22, "underlay-padding": 5, "z-index": 20, "text-wrap": "wrap" } },
    { selector: "node.under", style: { label: "data(title)", opacity: 1, "z-index": 40, "border-color": colour("--focus") } },
    { selector: "edge.under", style: { label: "data(title)", opacity: 1, "z-index": 40, "text-wrap": "wrap", "text-background-opacity": 1 } },
  ];
}
