// Label placement: of two overlapping labels only the more
// important one is shown.

/** A label, in CSS pixels. */
export interface Label {
  id: string;
  /** Its box. */
  left: number;
  top: number;
  width: number;
  height: number;
  /** Priority. */
  weight: number;
}

const cell = 64;

/** A box on the screen. */
export type Box = Pick<Label, "left" | "top" | "width" | "height">;

/** The ids of the labels to show; none covers an obstacle. */
export function readable(labels: Label[], obstacles: Box[] = []): Set<string> {
  const written = new Set<string>();
  const cells = new Map<string, Box[]>();
  const put = (box: Box, keys: string[]): void => {
    for (const k of keys) {
      const here = cells.get(k);
      if (here) here.push(box);
      else cells.set(k, [box]);
    }
  };
  for (const box of obstacles) put(box, keysOf(box));
  for (const label of [...labels].sort((a, b) => b.weight - a.weight || (a.id < b.id ? -1 : 1))) {
    const keys = keysOf(label);
    if (keys.some((k) => cells.get(k)?.some((other) => overlap(other, label)))) continue;
    written.add(label.id);
    put(label, keys);
  }
  return written;
}

function keysOf(box: Box): string[] {
  const keys: string[] = [];
  for (let x = Math.floor(box.left / cell); x <= Math.floor((box.left + box.width) / cell); x++) {
    for (let y = Math.floor(box.top / cell); y <= Math.floor((box.top + box.height) / cell); y++) keys.push(`${x} ${y}`);
  }
  return keys;
}

/** Whether two boxes overlap. */
export const overlap = (a: Box, b: Box): boolean =>
  a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height && b.top < a.top + a.height;
