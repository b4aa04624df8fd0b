// A graph to draw: its dots, strokes and their places, apart from the screen.
import { apart, type Point } from "./graph-layout.ts";

/** A node. */
export interface Dot {
  id: string;
  kind: "agent" | "router" | "unknown" | "group";
  label: string;
  /** Tooltip. */
  title: string;
  /** Of two overlapping labels, the one with the larger weight is shown. */
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

/** A dot in its place. */
export interface Placed {
  dot: Dot;
  at: Point;
}

/** A stroke with its ends. */
export interface Joined {
  stroke: Stroke;
  from: Placed;
  to: Placed;
}

/** A picture in its places. */
export interface Scene {
  picture: Picture;
  dots: Placed[];
  strokes: Joined[];
}

/** An empty scene. */
export const nothing: Scene = { picture: { dots: [], strokes: [], lit: new Set(), ends: new Set() }, dots: [], strokes: [] };

/** Places a picture; strokes without both of their dots are left out. */
export function sceneOf(picture: Picture, places: ReadonlyMap<string, Point>): Scene {
  const byId = new Map(picture.dots.map((dot) => [dot.id, { dot, at: { ...(places.get(dot.id) ?? { x: 0, y: 0 }) } }]));
  const strokes = picture.strokes.flatMap((stroke) => {
    const [from, to] = [byId.get(stroke.from), byId.get(stroke.to)];
    return from && to ? [{ stroke, from, to }] : [];
  });
  return { picture, dots: [...byId.values()], strokes };
}

/** A box around points. */
export interface Extent {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** The box around the dots; undefined if there are none. */
export function extentOf(dots: readonly Placed[]): Extent | undefined {
  if (dots.length === 0) return undefined;
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const { at: { x, y } } of dots) {
    box.left = Math.min(box.left, x);
    box.top = Math.min(box.top, y);
    box.right = Math.max(box.right, x);
    box.bottom = Math.max(box.bottom, y);
  }
  return box;
}

const large = (kind: Dot["kind"]): boolean => kind === "agent" || kind === "group";

/** Half of the size of a dot on the screen, CSS pixels. Dots grow less than the zoom, and stay apart. */
export function halfOf(kind: Dot["kind"], zoom: number): number {
  const size = Math.min(34, Math.max(26 * zoom, Math.min(10, apart * zoom * 0.75)));
  return (size * (large(kind) ? 1.1 : 0.85)) / 2;
}

/** Width of a stroke on the screen, CSS pixels. */
export const widthOf = ({ width }: Stroke, zoom: number): number => width * Math.min(1, 0.35 + zoom * 0.65);

/** Where the label of a dot is. */
export type Side = "left" | "right" | "above" | "below";

/** Labels of the outermost large dots are outside. */
export function sideOf({ dot, at }: Placed, whole: Extent): Side {
  if (!large(dot.kind)) return "below";
  const x = (2 * at.x - whole.left - whole.right) / Math.max(1, whole.right - whole.left);
  const y = (2 * at.y - whole.top - whole.bottom) / Math.max(1, whole.bottom - whole.top);
  if (Math.hypot(x, y) < 0.7) return "below";
  if (Math.abs(x) > 0.4) return x < 0 ? "left" : "right";
  return y < 0 ? "above" : "below";
}
