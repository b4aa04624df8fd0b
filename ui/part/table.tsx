// A table, sortable by its column headers.
import type { ComponentChildren } from "preact";
import "../style/table.css";
import { Icon } from "./icon.tsx";

export interface Column<R> {
  /** Unique name, which the sort order uses, too. */
  key: string;
  title: string;
  /** Tooltip of the header. */
  help?: string;
  /** Align right. */
  number?: boolean;
  /** Not sortable. */
  fixed?: boolean;
  cell: (row: R) => ComponentChildren;
}

export interface Sort {
  key: string;
  ascending: boolean;
}

interface TableProps<R> {
  /** Caption for screen readers. */
  caption: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  /** Unique key of a row. */
  keyOf: (row: R) => string;
  sort?: Sort;
  onSort?: (sort: Sort) => void;
  /** Shown instead of rows. */
  empty?: ComponentChildren;
  /** The rows are outdated; new ones are loading. */
  stale?: boolean;
}

/** Table shows rows, which its owner sorts. Wide tables scroll inside. */
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
  // Numbers are sorted largest first, text alphabetically.
  const sortBy = () => onSort({ key: column.key, ascending: mine ? !mine.ascending : !column.number });
  return (
    <th scope="col" class={kind} aria-sort={mine ? (mine.ascending ? "ascending" : "descending") : undefined}>
      <button class="quiet table-head" type="button" title={column.help} onClick={sortBy}>
        {column.title}
        <span class={mine ? "table-order" : "table-order none"}><Icon name={mine?.ascending ? "up" : "down"} /></span>
      </button>
    </th>
  );
}
