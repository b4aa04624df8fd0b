// The matrix of a few hosts: large cells with a sparkline and figures.
import { useRef, useState } from "preact/hooks";
import { inkOn } from "../../chart/colour.ts";
import { moved } from "../../chart/matrix.tsx";
import type { Cursor, Tone } from "../../chart/matrix-paint.ts";
import { pairTable } from "../../data/pairs.ts";
import { packetRate, share, duration } from "../../data/quantity.ts";
import { href } from "../../data/route.ts";
import { Course } from "./course.tsx";
import { cellText, sayCell } from "./cell.ts";
import type { Picture } from "./picture.ts";
import { stateWord } from "./state.ts";

interface FewMatrixProps {
  picture: Picture;
  palette: Tone[];
  label: string;
  address: (at: Cursor) => string | undefined;
}

/** FewMatrix is a grid of links, one for each pair. */
export function FewMatrix({ picture, palette, label, address }: FewMatrixProps) {
  const grid = useRef<HTMLTableElement>(null);
  const [at, setAt] = useState<Cursor>();
  const { rows, columns } = picture;
  const entry = at && at.row < rows.length && at.column < columns.length ? at : start(picture);
  const keys = (event: KeyboardEvent) => {
    const to = moved(event, entry, picture);
    if (!to) return;
    event.preventDefault();
    setAt(to);
    grid.current?.querySelector<HTMLElement>(`[data-at="${to.row},${to.column}"]`)?.focus();
  };
  return (
    <div class="scroll-x few">
      <table role="grid" aria-label={label} ref={grid} onKeyDown={keys}>
        <thead>
          <tr><td class="corner">from ↓ to →</td>{columns.map((name) => <th key={name} scope="col"><a href={href(["agent", name])} tabIndex={-1}>{name}</a></th>)}</tr>
        </thead>
        <tbody>
          {rows.map((name, row) => (
            <tr key={name}>
              <th scope="row"><a href={href(["agent", name])} tabIndex={-1}>{name}</a></th>
              {columns.map((to, column) => (
                <Cell key={to} picture={picture} palette={palette} at={{ row, column }} here={entry.row === row && entry.column === column} to={address({ row, column })} enter={setAt} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The first cell with a pair. */
const start = (picture: Picture): Cursor => ({ row: 0, column: picture.rows[0] === picture.columns[0] && picture.columns.length > 1 ? 1 : 0 });

function Cell({ picture, palette, at, here, to, enter }: { picture: Picture; palette: Tone[]; at: Cursor; here: boolean; to: string | undefined; enter: (at: Cursor) => void }) {
  const { row, column } = at;
  const place = { "data-at": `${row},${column}`, tabIndex: here ? 0 : -1, onFocus: () => enter(at) };
  if (!to) return <td class="self" {...place} aria-label={sayCell(picture, at)} />;
  const state = picture.state(row, column);
  const pair = picture.pair(row, column);
  const colour = palette[picture.tone(row, column)]?.colour ?? "#ffffff";
  const measured = (state === "live" || state === "stale") && pair >= 0;
  const other = picture.measure === "loss" ? duration(pairTable.p50[pair]) : `loss ${share(pairTable.loss(pair))}`;
  return (
    <td>
      <a class={`cell ${state}`} href={to} {...place} style={{ background: colour, "--cell-ink": inkOn(colour) }}>
        <span class="hidden-text">{picture.rows[row]} to {picture.columns[column]}: </span>
        <strong>{cellText(picture, row, column)}</strong>
        {measured && <Course pair={pair} measure={picture.measure} width={104} height={26} colour="--cell-ink" />}
        {measured && <small><span>{other}</span><span>{packetRate(pairTable.packetRate(pair))}</span></small>}
        {state === "none" && <small>{stateWord(state)}</small>}
      </a>
    </td>
  );
}
