// The part of a graph that is on the screen: positions there, and what is under the pointer.
import type { Point } from "./graph-layout.ts";
import { halfOf, widthOf, type Extent, type Joined, type Placed, type Scene } from "./graph-scene.ts";

/** On the screen, a point is at its position times zoom plus x and y, CSS pixels. */
export interface View {
  zoom: number;
  x: number;
  y: number;
}

/** Size of the screen, CSS pixels. */
export interface Size {
  width: number;
  height: number;
}

const [least, most] = [0.04, 4];
const largest = 1.7; // for small graphs that are fitted
const margin = 76; // for the labels of the outermost dots

/** Position on the screen. */
export const onScreen = ({ zoom, x, y }: View, at: Point): Point => ({ x: at.x * zoom + x, y: at.y * zoom + y });

/** Position in the graph. */
export const inGraph = ({ zoom, x, y }: View, at: Point): Point => ({ x: (at.x - x) / zoom, y: (at.y - y) / zoom });

/** The view of all dots. Labels keep their size on the screen and are not part of the fitted box. */
export function fitted({ left, top, right, bottom }: Extent, { width, height }: Size): View {
  const size = 2 * halfOf("agent", 1);
  const room = (length: number): number => length - 2 * Math.min(margin, length / 7);
  const zoom = Math.max(least, Math.min(largest, room(width) / (right - left + size), room(height) / (bottom - top + size)));
  return { zoom, x: width / 2 - (zoom * (left + right)) / 2, y: height / 2 - (zoom * (top + bottom)) / 2 };
}

/** The view zoomed, within limits, around a point of the screen. */
export function zoomedAt(view: View, factor: number, at: Point): View {
  const zoom = Math.min(most, Math.max(least, view.zoom * factor));
  const f = zoom / view.zoom;
  return { zoom, x: at.x - (at.x - view.x) * f, y: at.y - (at.y - view.y) * f };
}

/** What is under the pointer. */
export type Target = { dot: Placed } | { stroke: Joined };

const reach = 4; // pixels beside a dot or stroke that still count

/** The dot at a point of the screen, else the stroke. */
export function targetAt({ dots, strokes }: Scene, view: View, point: Point): Target | undefined {
  const dot = nearest(dots, ({ dot: { kind }, at }) => {
    const here = onScreen(view, at);
    const away = Math.max(Math.abs(here.x - point.x), Math.abs(here.y - point.y));
    return away <= halfOf(kind, view.zoom) + reach ? away : Infinity;
  });
  if (dot) return { dot };
  const stroke = nearest(strokes, ({ stroke: of, from, to }) => {
    const away = distance(point, onScreen(view, from.at), onScreen(view, to.at));
    return away <= widthOf(of, view.zoom) / 2 + reach ? away : Infinity;
  });
  return stroke && { stroke };
}

function nearest<T>(of: readonly T[], away: (one: T) => number): T | undefined {
  let found: T | undefined;
  let closest = Infinity;
  for (const one of of) {
    const here = away(one);
    if (here >= closest) continue;
    closest = here;
    found = one;
  }
  return found;
}

/** Distance of a point from the line between two others. */
function distance(p: Point, a: Point, b: Point): number {
  const [dx, dy] = [b.x - a.x, b.y - a.y];
  const length = dx * dx + dy * dy;
  const t = length === 0 ? 0 : Math.min(1, Math.max(0, ((p.x - a.x) * dx + (p.y - a.y) * dy) / length));
  return Math.hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}
