// A matrix of many cells: a canvas, and an ARIA grid for
// the keyboard and screen readers.
import "../style/matrix.css";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { dark } from "../part/theme.tsx";
import { layoutOf, MatrixPainter, type Cells, type Cursor, type Layout } from "./matrix-paint.ts";

interface MatrixProps {
  /** Label for screen readers. */
  label: string;
  cells: Cells;
  /** Changes with the cells. */
  version: number;
  /** Maximum height in pixels; larger matrices scroll. */
  most: number;
  /** Announcement of a cell that the keyboard moves to. */
  say: (at: Cursor) => string;
  /** Card of the cell under the pointer or the cursor. */
  card: (at: Cursor) => ComponentChildren;
  /** Address of a cell's page, if any. */
  address: (at: Cursor) => string | undefined;
}

/** The active cell and how it was reached. */
interface Look extends Cursor {
  by: "mouse" | "touch" | "keys";
}

/** Matrix draws cells, shows a card for the active one, and opens its page. */
export function Matrix({ label, cells, version, most, say, card, address }: MatrixProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef(new MatrixPainter());
  const [width, setWidth] = useState(0);
  const [look, setLook] = useState<Look>();
  const [said, setSaid] = useState("");
  const at: Cursor = { row: Math.min(look?.row ?? 0, cells.rows.length - 1), column: Math.min(look?.column ?? 0, cells.columns.length - 1) };
  const shown = look && look.row < cells.rows.length && look.column < cells.columns.length ? look : undefined;

  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const measure = () => setWidth(box.clientWidth);
    const watch = new ResizeObserver(measure);
    watch.observe(box);
    measure();
    return () => watch.disconnect();
  }, []);
  const layout = width > 0 ? layoutOf(cells, width, most, coarse(), (text) => textWidth(canvas.current, text)) : undefined;
  const whole = layout && { width: layout.left + cells.columns.length * layout.cellWidth, height: layout.top + cells.rows.length * layout.cellHeight };

  const draw = () => {
    const [box, picture] = [scroller.current, canvas.current];
    if (box && picture && layout) painter.current.draw(picture, cells, layout, { x: box.scrollLeft, y: box.scrollTop }, shown, version);
  };
  const latest = useRef(draw);
  latest.current = draw;
  useLayoutEffect(draw, [version, layout?.width, layout?.height, layout?.cellWidth, shown?.row, shown?.column, cells]);
  useEffect(() => dark.subscribe(() => requestAnimationFrame(() => latest.current())), []);

  const point = (event: PointerEvent | MouseEvent): Cursor | undefined => {
    const box = scroller.current;
    if (!box || !layout) return undefined;
    const edge = box.getBoundingClientRect();
    const [x, y] = [event.clientX - edge.left - layout.left, event.clientY - edge.top - layout.top];
    if (x < 0 || y < 0) return undefined;
    const row = Math.floor((y + box.scrollTop) / layout.cellHeight);
    const column = Math.floor((x + box.scrollLeft) / layout.cellWidth);
    return row < cells.rows.length && column < cells.columns.length ? { row, column } : undefined;
  };
  const move = (event: PointerEvent) => {
    if (event.pointerType !== "mouse") return;
    const to = point(event);
    if (to?.row !== look?.row || to?.column !== look?.column) setLook(to && { ...to, by: "mouse" });
  };
  const touched = useRef(false);
  const click = (event: MouseEvent) => {
    const to = point(event);
    if (!to) return;
    if (touched.current) setLook({ ...to, by: "touch" });
    else visit(address(to));
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Escape") return setLook(undefined);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return visit(address(at));
    }
    const to = moved(event, at, cells);
    if (!to) return;
    event.preventDefault();
    setLook({ ...to, by: "keys" });
    setSaid(say(to));
    if (scroller.current && layout) reveal(scroller.current, layout, to);
  };
  const id = `${useId()}-cell`;
  return (
    <div class="matrix" onPointerLeave={() => look?.by === "mouse" && setLook(undefined)}>
      <div class="matrix-scroll" ref={scroller} role="grid" tabIndex={0} aria-label={label} aria-rowcount={cells.rows.length + 1} aria-colcount={cells.columns.length + 1}
        aria-activedescendant={id} style={layout && { height: px(layout.height + (whole && whole.width > layout.width ? 14 : 0)) }}
        onScroll={() => { draw(); if (look?.by === "mouse") setLook(undefined); }} onPointerMove={move} onPointerDown={(e) => (touched.current = e.pointerType !== "mouse")}
        onClick={click} onKeyDown={keys} onBlur={() => look?.by === "keys" && setLook(undefined)}>
        <div class="matrix-room" style={whole && { width: px(whole.width), height: px(whole.height) }}>
          <canvas ref={canvas} aria-hidden="true" style={layout && { width: px(layout.width), height: px(layout.height) }} />
        </div>
        <div class="hidden-text" role="row" aria-rowindex={at.row + 2}>
          <span role="rowheader">{cells.rows[at.row]}</span>
          <span role="gridcell" id={id} aria-colindex={at.column + 2}>{cells.rows[at.row]} to {cells.columns[at.column]}</span>
        </div>
      </div>
      <p class="hidden-text" aria-live="polite">{said}</p>
      {shown && layout && <Card look={shown} layout={layout} scroller={scroller.current} address={address(shown)} close={() => setLook(undefined)}>{card(shown)}</Card>}
    </div>
  );
}

function Card({ look, layout, scroller, address, close, children }: { look: Look; layout: Layout; scroller: HTMLElement | null; address: string | undefined; close: () => void; children: ComponentChildren }) {
  if (look.by === "touch") {
    return (
      <div class="matrix-card docked">
        {children}
        <div class="row">
          {address && <a class="button main" href={address}>Open pair</a>}
          <button type="button" onClick={close}>Close</button>
        </div>
      </div>
    );
  }
  const x = layout.left + (look.column + 0.5) * layout.cellWidth - (scroller?.scrollLeft ?? 0);
  const y = layout.top + look.row * layout.cellHeight - (scroller?.scrollTop ?? 0);
  const below = y < layout.height / 2;
  const end = x > layout.width / 2;
  return (
    <div class="matrix-card" aria-hidden="true" style={{
      left: end ? "auto" : px(x + layout.cellWidth / 2 + 8), right: end ? px(layout.width - x + layout.cellWidth / 2 + 8) : "auto",
      top: below ? px(y + layout.cellHeight) : "auto", bottom: below ? "auto" : `calc(100% - ${y}px)`,
    }}>{children}</div>
  );
}

const px = (v: number): string => `${v}px`;

const coarse = (): boolean => typeof matchMedia === "function" && matchMedia("(pointer: coarse)").matches;

const visit = (address: string | undefined): void => void (address && (location.hash = address));

let ids = 0;

function useId(): string {
  const id = useRef("");
  id.current ||= `matrix${++ids}`;
  return id.current;
}

const widths = new Map<string, number>();

function textWidth(canvas: HTMLCanvasElement | null, text: string): number {
  const known = widths.get(text);
  if (known !== undefined) return known;
  const g = canvas?.getContext("2d");
  if (!canvas || !g) return text.length * 7;
  g.font = `12px ${getComputedStyle(canvas).fontFamily}`;
  const width = g.measureText(text).width;
  if (widths.size > 4000) widths.clear();
  widths.set(text, width);
  return width;
}

/** The cell that a key moves to, if any. */
export function moved(event: { key: string; ctrlKey: boolean }, at: Cursor, cells: { rows: unknown[]; columns: unknown[] }): Cursor | undefined {
  const [lastRow, lastColumn] = [cells.rows.length - 1, cells.columns.length - 1];
  const to = { ...at };
  switch (event.key) {
    case "ArrowUp": to.row--; break;
    case "ArrowDown": to.row++; break;
    case "ArrowLeft": to.column--; break;
    case "ArrowRight": to.column++; break;
    case "PageUp": to.row -= 10; break;
    case "PageDown": to.row += 10; break;
    case "Home": to.column = 0; if (event.ctrlKey) to.row = 0; break;
    case "End": to.column = lastColumn; if (event.ctrlKey) to.row = lastRow; break;
    default: return undefined;
  }
  return { row: Math.max(0, Math.min(lastRow, to.row)), column: Math.max(0, Math.min(lastColumn, to.column)) };
}

/** Scrolls a cell into view. */
function reveal(box: HTMLElement, layout: Layout, at: Cursor): void {
  const [x, y] = [at.column * layout.cellWidth, at.row * layout.cellHeight];
  box.scrollLeft = Math.min(x, Math.max(box.scrollLeft, x + layout.cellWidth + layout.left - layout.width));
  box.scrollTop = Math.min(y, Math.max(box.scrollTop, y + layout.cellHeight + layout.top - layout.height));
}
