// Which names of a graph can be read: of two that would overlap only the more
// important one is written.

/** A name that wants to be written, in pixels of the screen. */
export interface Label {
  id: string;
  /** The box of its text. */
  left: number;
  top: number;
  width: number;
  height: number;
  /** Larger goes first. */
  weight: number;
}

const cell = 64;

/** The ids of the names that are written. */
export function readable(labels: Label[]): Set<string> {
  const written = new Set<string>();
  const cells = new Map<string, Label[]>();
  for (const label of [...labels].sort((a, b) => b.weight - a.weight || (a.id < b.id ? -1 : 1))) {
    const keys: string[] = [];
    for (let x = Math.floor(label.left / cell); x <= Math.floor((label.left + label.width) / cell); x++) {
      for (let y = Math.floor(label.top / cell); y <= Math.floor((label.top + label.height) / cell); y++) keys.push(`${x} ${y}`);
    }
    if (keys.some((k) => cells.get(k)?.some((other) => overlap(other, label)))) continue;
    written.add(label.id);
    for (const k of keys) {
      const here = cells.get(k);
      if (here) here.push(label);
      else cells.set(k, [label]);
    }
  }
  return written;
}

const overlap = (a: Label, b: Label): boolean =>
  a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height && b.top < a.top + a.height;
