// The labels of a graph: those that fit, and where.
import { overlap, readable, type Box, type Label } from "./graph-label.ts";
import type { Point } from "./graph-layout.ts";
import { extentOf, halfOf, sideOf, type Joined, type Placed, type Scene, type Side } from "./graph-scene.ts";
import { onScreen, type View } from "./graph-view.ts";

/** CSS pixels. */
export const textSize = 12;
export const lineHeight = 16;

const readableFrom = 8; // half of the size of a dot without a name that has a label

/** A label that is shown. Its box stays at a distance from a point of the graph. */
export interface Written {
  lines: string[];
  at: Point;
  dx: number;
  dy: number;
  /** Instead of dy, if the label is moved sideways to stay on the screen. */
  below: number;
  width: number;
  bold: boolean;
  /** On a ground of the colour of the panel: the label is across a stroke. */
  ground: boolean;
  /** Not dimmed. */
  bright: boolean;
}

/** Measures a text, CSS pixels. */
export type Measure = (text: string) => number;

/** The labels of a scene at a zoom; panning does not change them. */
export function writtenOf(scene: Scene, view: View, measure: Measure): Written[] {
  const [names, figures] = [dotLabels(scene, view, measure), strokeLabels(scene, view, measure)];
  const clear = (one: Written, others: Written[]): boolean => !others.some((other) => overlap(boxOf(one, view), boxOf(other, view)));
  // Figures cover names that are dimmed; of highlighted names, the names matter more.
  const free = figures.filter((f) => clear(f, names.filter((n) => n.bright)));
  return [...names.filter((n) => n.bright || clear(n, free)), ...free];
}

function boxOf({ at, dx, dy, width, lines }: Written, view: View): Box {
  const { x, y } = onScreen(view, at);
  return { left: x + dx, top: y + dy, width, height: lines.length * lineHeight };
}

function dotLabels({ dots, picture: { lit } }: Scene, view: View, measure: Measure): Written[] {
  const whole = extentOf(dots);
  if (!whole) return [];
  const found = new Map<string, Written>();
  const labels: Label[] = [];
  const obstacles: Box[] = [];
  for (const placed of dots) {
    const { dot: { id, kind, label, weight }, at } = placed;
    const half = halfOf(kind, view.zoom);
    const { x, y } = onScreen(view, at);
    // A name matters more than a hop without a reply.
    if (kind !== "unknown") obstacles.push({ left: x - half + 1, top: y - half + 1, width: 2 * half - 2, height: 2 * half - 2 });
    if (kind === "unknown" && half < readableFrom) continue; // the shape shows that the hop is unknown
    const width = measure(label) + 6;
    const { dx, dy } = beside(sideOf(placed, whole), half, width);
    labels.push({ id, left: x + dx, top: y + dy, width, height: lineHeight, weight: weight + (lit.has(id) ? 1e6 : 0) });
    found.set(id, { lines: [label], at, dx, dy, below: half + 3, width, bold: isBold(placed), ground: false, bright: lit.has(id) });
  }
  const fitting = readable(labels, obstacles);
  return [...found].flatMap(([id, label]) => (fitting.has(id) ? [label] : []));
}

const isBold = ({ dot: { kind } }: Placed): boolean => kind === "agent" || kind === "group";

/** Upper left corner of a label from the middle of its dot. */
function beside(side: Side, half: number, width: number): { dx: number; dy: number } {
  switch (side) {
    case "left": return { dx: -half - 4 - width, dy: -lineHeight / 2 };
    case "right": return { dx: half + 4, dy: -lineHeight / 2 };
    case "above": return { dx: -width / 2, dy: -half - 3 - lineHeight };
    case "below": return { dx: -width / 2, dy: half + 3 };
  }
}

/** Labels of highlighted strokes that are long enough. */
function strokeLabels({ strokes, picture: { lit } }: Scene, view: View, measure: Measure): Written[] {
  const long = ({ stroke: { id }, from, to }: Joined): boolean => lit.has(id) && from.at !== to.at;
  return strokes.filter(long).flatMap(({ stroke: { label }, from: { at: a }, to: { at: b } }) => {
    const lines = label.split("\n");
    const width = Math.max(...lines.map(measure)) + 6;
    if (width + 18 > Math.hypot(a.x - b.x, a.y - b.y) * view.zoom) return [];
    return [{ lines, at: { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 }, dx: -width / 2, dy: (-lines.length * lineHeight) / 2, below: (-lines.length * lineHeight) / 2, width, bold: false, ground: true, bright: true }];
  });
}
