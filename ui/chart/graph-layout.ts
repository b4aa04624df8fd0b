// Layout of a graph of paths. The ends of paths are on an ellipse, ends that share routers beside each other.
// Routers are inside, at distances from the ends in proportion to hops. The layout is deterministic.

/** A position, in unzoomed pixels. */
export interface Point {
  x: number;
  y: number;
}

/** The graph to lay out. */
export interface Shape {
  /** All nodes; the ends of paths are on the rim. A node that had other ids before keeps their position. */
  nodes: { id: string; rim: boolean; was?: readonly string[] }[];
  /** Node by node from one end to another. */
  ways: { nodes: string[]; to?: string }[];
}

/** Minimum distance of two nodes. */
export const apart = 64;

const byName = new Intl.Collator("en", { numeric: true });
const compare = (a: string, b: string): number => byName.compare(a, b) || (a < b ? -1 : a > b ? 1 : 0);

/** Lays out a graph; aspect is width by height of the area. */
export function arrange(shape: Shape, aspect = 1.6): Map<string, Point> {
  const ways = distinct(shape);
  const order = rimOrder(shape, ways);
  const inner = shape.nodes.length - order.length;
  const longest = ways.reduce((most, w) => Math.max(most, w.nodes.length), 2);
  const rimSpace = order.length <= 40 ? 110 : 70;
  const radius = Math.max(170, (order.length * rimSpace) / (2 * Math.PI * Math.sqrt((aspect * aspect + 1) / 2)), apart * Math.sqrt(inner) * 0.8, (longest * 70) / (2 * aspect));
  const places = new Map<string, Point>();
  const rim = ellipse(order.length, radius * aspect, radius);
  order.forEach((id, i) => places.set(id, rim[i] ?? { x: 0, y: 0 }));
  const space = new Space(places);
  for (const { id, point } of targets(ways, places)) {
    if (places.has(id)) continue;
    const free = space.near(point);
    places.set(id, free);
    space.add(free);
  }
  return places;
}

/** Evenly spaced points on an ellipse, starting at the left. */
function ellipse(points: number, width: number, height: number): Point[] {
  if (points < 2) return Array.from({ length: points }, () => ({ x: 0, y: 0 }));
  const pieces = 3600;
  const at = (i: number): Point => {
    const angle = Math.PI + (2 * Math.PI * i) / pieces;
    return { x: width * Math.cos(angle), y: height * Math.sin(angle) };
  };
  const lengths = [0];
  for (let i = 1, before = at(0); i <= pieces; i++) {
    const here = at(i);
    lengths.push((lengths[i - 1] ?? 0) + Math.hypot(here.x - before.x, here.y - before.y));
    before = here;
  }
  const whole = lengths[pieces] ?? 0;
  const found: Point[] = [];
  for (let i = 0; found.length < points; i++) {
    if ((lengths[i] ?? Infinity) >= (found.length * whole) / points - 1e-9) found.push(at(i));
  }
  return found;
}

/** The position that a node has already. */
export function positionOf(node: Shape["nodes"][number], kept: ReadonlyMap<string, Point>): Point | undefined {
  const former = kept.has(node.id) ? undefined : node.was?.find((id) => kept.has(id));
  return kept.get(former ?? node.id);
}

/** Places new nodes; all others keep their positions. */
export function extend(shape: Shape, kept: ReadonlyMap<string, Point>, aspect = 1.6): Map<string, Point> {
  const places = new Map<string, Point>();
  for (const node of shape.nodes) {
    const place = positionOf(node, kept);
    if (place) places.set(node.id, place);
  }
  const fresh = shape.nodes.filter((n) => !places.has(n.id)).sort((a, b) => compare(a.id, b.id));
  if (fresh.length === 0) return places;
  if (places.size === 0) return arrange(shape, aspect);
  const near = neighbours(distinct(shape));
  // Positions of removed nodes stay reserved, in case they return.
  const space = new Space(kept);
  const extent = Math.max(apart, ...[...places.values()].map((p) => Math.hypot(p.x / aspect, p.y)));
  for (const { id, rim } of [...fresh.filter((n) => !n.rim), ...fresh.filter((n) => n.rim)]) {
    const around = [...(near.get(id) ?? [])].flatMap((n) => places.get(n) ?? []);
    const middle = mean(around);
    let want = middle ?? { x: 0, y: extent };
    if (rim) {
      const angle = Math.atan2(want.y, want.x / aspect);
      want = { x: extent * aspect * Math.cos(angle), y: extent * Math.sin(angle) };
    }
    const free = space.near(want);
    places.set(id, free);
    space.add(free);
  }
  return places;
}

const mean = (points: Point[]): Point | undefined =>
  points.length === 0 ? undefined : { x: points.reduce((s, p) => s + p.x, 0) / points.length, y: points.reduce((s, p) => s + p.y, 0) / points.length };

interface Counted {
  nodes: string[];
  to?: string;
}

/** Distinct ways in a fixed order. */
function distinct(shape: Shape): Counted[] {
  const seen = new Map<string, Counted>();
  for (const way of shape.ways) {
    const key = JSON.stringify([way.nodes, way.to]);
    if (!seen.has(key)) seen.set(key, way);
  }
  return [...seen].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, way]) => way);
}

function neighbours(ways: Counted[]): Map<string, Set<string>> {
  const near = new Map<string, Set<string>>();
  const join = (a: string, b: string): void => {
    const set = near.get(a);
    if (set) set.add(b);
    else near.set(a, new Set([b]));
  };
  for (const { nodes } of ways) {
    nodes.forEach((node, i) => {
      const previous = nodes[i - 1];
      if (previous === undefined || previous === node) return;
      join(previous, node);
      join(node, previous);
    });
  }
  return near;
}

/**
 * The order of the ends on the rim: a depth-first walk through the tree of shortest
 * ways from the busiest node, so that no two edges of the tree cross.
 */
function rimOrder(shape: Shape, ways: Counted[]): string[] {
  const rim = new Set(shape.nodes.filter((n) => n.rim).map((n) => n.id));
  const near = neighbours(ways);
  const load = new Map<string, number>();
  for (const { nodes } of ways) for (const n of nodes) if (!rim.has(n)) load.set(n, (load.get(n) ?? 0) + 1);
  const middle = [...load].sort(([a, x], [b, y]) => y - x || compare(a, b)).map(([id]) => id);
  const order: string[] = [];
  const met = new Set<string>();
  const walk = (root: string): void => {
    const children = new Map<string, string[]>();
    const queue = [root];
    met.add(root);
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      if (rim.has(next)) continue; // hosts do not forward
      const found = [...(near.get(next) ?? [])].filter((n) => !met.has(n)).sort(compare);
      for (const n of found) met.add(n);
      children.set(next, found);
      queue.push(...found);
    }
    const stack = [root];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      if (rim.has(next)) order.push(next);
      stack.push(...(children.get(next) ?? []).reverse());
    }
  };
  for (const id of middle) if (!met.has(id)) walk(id);
  for (const id of [...rim].sort(compare)) if (!met.has(id)) order.push(id);
  return order;
}

/**
 * Preferred positions of inner nodes: the mean of a node's positions on the arcs of its ways. The busiest nodes come
 * first.
 */
function targets(ways: Counted[], rim: ReadonlyMap<string, Point>): { id: string; point: Point }[] {
  const sums = new Map<string, { x: number; y: number; count: number }>();
  const lanes = new Map<string, number>();
  for (const { nodes, to } of ways) {
    const first = nodes[0] ?? "";
    const last = nodes.at(-1) ?? "";
    const arrives = rim.has(last) && nodes.length > 1;
    const from = rim.get(first);
    const end = rim.get(arrives ? last : to ?? "") ?? { x: 0, y: 0 };
    if (!from) continue;
    const lane = `${first} ${arrives ? last : to ?? ""}`;
    const rank = lanes.get(lane) ?? 0;
    lanes.set(lane, rank + 1);
    const steps = arrives ? nodes.length - 1 : nodes.length;
    const bulge = 0.07 + 0.14 * Math.min(rank, 5); // to the left, to separate both directions
    nodes.forEach((id, i) => {
      if (rim.has(id)) return;
      const t = i / steps;
      const rise = bulge * Math.sin(Math.PI * t);
      const sum = sums.get(id) ?? { x: 0, y: 0, count: 0 };
      sum.x += from.x + t * (end.x - from.x) + rise * (end.y - from.y);
      sum.y += from.y + t * (end.y - from.y) - rise * (end.x - from.x);
      sum.count++;
      sums.set(id, sum);
    });
  }
  return [...sums].sort(([a, x], [b, y]) => y.count - x.count || compare(a, b))
    .map(([id, s]) => ({ id, point: { x: s.x / s.count, y: s.y / s.count } }));
}

const row = 1 << 16; // cells; more than any graph has in a row

/** Offsets of the cells that a point in a cell can touch: the cell itself first, then its neighbours. */
const around = [0, 1, -1, row, -row, row + 1, row - 1, 1 - row, -row - 1];

/** Space tracks occupied positions. */
class Space {
  private cells = new Map<number, Point[]>();

  constructor(taken: ReadonlyMap<string, Point>) {
    for (const p of taken.values()) this.add(p);
  }

  add(p: Point): void {
    const key = Math.floor(p.x / apart) * row + Math.floor(p.y / apart);
    const cell = this.cells.get(key);
    if (cell) cell.push(p);
    else this.cells.set(key, [p]);
  }

  private free(x: number, y: number): boolean {
    const middle = Math.floor(x / apart) * row + Math.floor(y / apart);
    return !around.some((to) => this.cells.get(middle + to)?.some((o) => (o.x - x) ** 2 + (o.y - y) ** 2 < apart * apart));
  }

  /** The nearest free position, searched in rings. */
  near(want: Point): Point {
    const start = { x: Math.round(want.x), y: Math.round(want.y) };
    if (this.free(start.x, start.y)) return start;
    for (let ring = 1; ; ring++) {
      const distance = (ring * apart) / 4;
      const turns = Math.max(8, Math.ceil((2 * Math.PI * distance) / (apart / 4)));
      for (let i = 0; i < turns; i++) {
        const angle = -Math.PI / 2 + (2 * Math.PI * i) / turns;
        const p = { x: Math.round(start.x + distance * Math.cos(angle)), y: Math.round(start.y + distance * Math.sin(angle)) };
        if (this.free(p.x, p.y)) return p;
      }
    }
  }
}
