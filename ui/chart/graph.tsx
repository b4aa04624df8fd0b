// A graph with its buttons and keys.
import { useEffect, useRef, useState } from "preact/hooks";
import { dark } from "../part/theme.tsx";
import { nextTask } from "../data/task.ts";
import { Drawing, type Answers } from "./graph-draw.ts";
import { arrange, extend, positionOf, type Point, type Shape } from "./graph-layout.ts";
import type { Picture } from "./graph-scene.ts";

/** Positions of nodes, kept across drawings. */
export interface Places {
  at: Map<string, Point>;
  /** The user has moved a node: only the button rearranges the graph. */
  moved: boolean;
}

interface GraphProps extends Answers {
  title: string;
  picture: Picture;
  shape: Shape;
  places: Places;
}

const step = 60; // pixels per arrow key

/** Graph draws a picture with zoom, pan, drag and click. */
export function Graph({ title, picture, shape, places, ...answers }: GraphProps) {
  const box = useRef<HTMLDivElement>(null);
  const [drawing, setDrawing] = useState<Drawing>();
  const [ready, setReady] = useState(false);
  const [fault, setFault] = useState<string>();
  const latest = useRef({ answers, places });
  latest.current = { answers, places };

  useEffect(() => {
    if (!box.current) return undefined;
    try {
      const made = new Drawing(box.current, {
        dot: (id) => latest.current.answers.dot?.(id),
        nothing: () => latest.current.answers.nothing?.(),
        moved: (id, to) => {
          latest.current.places.at.set(id, to);
          latest.current.places.moved = true;
        },
        ready: () => setReady(true),
      });
      setDrawing(made);
      return () => made.end();
    } catch (e) {
      setFault(e instanceof Error ? e.message : String(e));
      return undefined;
    }
  }, []);
  useEffect(() => drawing?.recolour(), [drawing, dark.value]);
  useEffect(() => {
    if (!drawing) return undefined;
    let current = true;
    void placed(shape, places, aspectOf(box.current)).then((at) => current && drawing.show(picture, at));
    return () => void (current = false);
  }, [drawing, picture, shape, places]);

  const reset = (): void => {
    places.at = arrange(shape, aspectOf(box.current));
    places.moved = false;
    drawing?.show(picture, places.at);
    drawing?.fit();
  };
  const keys: Record<string, () => void> = {
    "+": () => drawing?.zoom(1.25), "=": () => drawing?.zoom(1.25), "-": () => drawing?.zoom(0.8), "0": () => drawing?.fit(),
    ArrowLeft: () => drawing?.pan(step, 0), ArrowRight: () => drawing?.pan(-step, 0), ArrowUp: () => drawing?.pan(0, step), ArrowDown: () => drawing?.pan(0, -step),
    Escape: () => answers.nothing?.(),
  };
  const key = (event: KeyboardEvent): void => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
  return (
    <div class="graph">
      <div ref={box} class="graph-canvas" tabIndex={0} role="application" aria-roledescription="graph" aria-label={`${title}. Arrow keys move it, plus and minus zoom, 0 shows all. The table of paths below has the same content.`} onKeyDown={key} />
      {fault && <p class="graph-fault" role="alert">Could not load the graph: {fault}</p>}
      {!ready && !fault && <p class="graph-fault soft">Loading the graph…</p>}
      <div class="graph-buttons" role="group" aria-label="View of the graph">
        <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => drawing?.zoom(1.25)}>+</button>
        <button type="button" aria-label="Zoom out" title="Zoom out (-)" onClick={() => drawing?.zoom(0.8)}>−</button>
        <button type="button" title="Show all (0)" onClick={() => drawing?.fit()}>Fit</button>
        <button type="button" title="Reset the layout" onClick={reset}>Reset layout</button>
      </div>
    </div>
  );
}

const aspectOf = (element: HTMLElement | null): number =>
  element && element.clientHeight > 0 ? Math.min(2, Math.max(0.7, element.clientWidth / element.clientHeight)) : 1.6;

/** The positions of nodes: they keep them, unless most of them are new. New ones take a task of their own. */
async function placed(shape: Shape, places: Places, aspect: number): Promise<ReadonlyMap<string, Point>> {
  if (shape.nodes.every((n) => places.at.has(n.id))) return places.at;
  await nextTask();
  const fresh = shape.nodes.filter((n) => !positionOf(n, places.at)).length;
  const rearrange = !places.moved && fresh > shape.nodes.length / 2;
  for (const [id, at] of rearrange ? arrange(shape, aspect) : extend(shape, places.at, aspect)) places.at.set(id, at);
  return places.at;
}
