// A cell of the matrix as text.
import type { Cursor } from "../../chart/matrix-paint.ts";
import { pairTable } from "../../data/pairs.ts";
import type { Picture } from "./picture.ts";
import { figureText, pairFigures, stateWord } from "./state.ts";

/** The figure of a cell, or why there is none. */
export function cellText(picture: Picture, row: number, column: number): string {
  const state = picture.state(row, column);
  if (state === "self") return "";
  if (state === "none") return "–";
  if (state === "quiet") return "no traffic";
  return figureText(picture.measure, pairTable.figure(picture.pair(row, column), picture.measure));
}

/** A cell as text for screen readers. */
export function sayCell(picture: Picture, at: Cursor): string {
  const [source, destination] = [picture.rows[at.row], picture.columns[at.column]];
  const state = picture.state(at.row, at.column);
  if (state === "self") return `${source} to itself: not a pair`;
  const figures = state === "none" || state === "quiet" ? [] : pairFigures(pairTable, picture.pair(at.row, at.column)).map((f) => `${f.name} ${f.text}`);
  return `${source} to ${destination}: ${[...(state === "live" ? [] : [stateWord(state)]), ...figures].join(", ")}`;
}
