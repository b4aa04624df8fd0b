// A table that is sorted by its heads.
import type { ComponentChildren } from "preact";
import "../style/table.css";
import { Icon } from "./icon.tsx";

export interface Column<R> {
  /** Name of the order; unique in the table. */
  key: string;
  title: string;
  /** Says more about the column. */
  help?: string;
  /** Figures stand at the right. */
  number?: boolean;
  /** Cannot be sorted. */
  fixed?: boolean;
  cell: (row: R) => ComponentChildren;
}

export interface Sort {
  key: string;
  ascending: boolean;
}

export interface TableProps<R> {
  /** What the table holds; read out, not shown. */
  caption: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  /** What a row is known by. */
  keyOf: (row: R) => string;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  /** Said in place of rows. */
  empty?: ComponentChildren;
  /** Rows are of a question whose new answer has not come. */
  stale?: boolean;
}

/** Table shows rows; whoever owns it sorts them. Wide ones scroll within themselves. */
export function Table<R>({ caption, columns, rows, keyOf, sort, onSort, empty, stale }: TableProps<R>) {
  return (
    <div class={`scroll-x table-box${stale ? " stale" : ""}`} role="region" aria-label={caption} aria-busy={stale} tabIndex={0}>
      <table>
        <caption class="hidden-text">{caption}</caption>
        <thead>
          <tr>{columns.map((c) => <Head key={c.key} column={c} sort={sort} onSort={onSort} />)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((c) => <td key={c.key} class={c.number ? "number" : undefined}>{c.cell(row)}</td>)}
            </tr>
          ))}
          {rows.length === 0 && <tr><td class="table-empty" colSpan={columns.length}>{empty}</td></tr>}
        </tbody>
      </table>
    </div>
  );
}

function Head<R>({ column, sort, onSort }: { column: Column<R>; sort?: Sort; onSort?: (sort: Sort) => void }) {
  const mine = sort?.key === column.key ? sort : undefined;
  const kind = column.number ? "number" : undefined;
  if (!onSort || column.fixed) return <th scope="col" class={kind} title={column.help}>{column.title}</th>;
  // Of figures the largest are looked for, of words the first.
  const turn = () => onSort({ key: column.key, ascending: mine ? !mine.ascending : !column.number });
  return (
    <th scope="col" class={kind} aria-sort={mine ? (mine.ascending ? "ascending" : "descending") : undefined}>
      <button class="quiet table-head" type="button" title={column.help} onClick={turn}>
        {column.title}
        <span class={mine ? "table-order" : "table-order none"}><Icon name={mine?.ascending ? "up" : "down"} /></span>
      </button>
    </th>
  );
}
