// The traffic matrix as coloured cells.
import { useMemo } from "preact/hooks";
import { sequential } from "../../chart/colour.ts";
import { Matrix } from "../../chart/matrix.tsx";
import type { Cells, Cursor } from "../../chart/matrix-paint.ts";
import { count } from "../../data/quantity.ts";
import { amountText, cellAt, type Amount, type Grid } from "../../data/traffic.ts";
import { dark } from "../../part/theme.tsx";

const shades = 64;
const few = 12; // numbers are shown in cells up to this number of rows and columns

interface PictureProps {
  grid: Grid;
  amount: Amount;
  version: number;
  label: string;
  /** Displayed name of a row or column. */
  name: (text: string) => string;
  address: (source: string, destination: string) => string | undefined;
}

/** Picture draws the traffic matrix, with a card of details for the cell under the cursor. */
export function Picture({ grid, amount, version, label, name, address }: PictureProps) {
  const night = dark.value;
  const [low, high] = useMemo(() => {
    const values = [...grid.cells.values()].map((c) => c.value).filter((v) => v > 0);
    return [Math.min(...values), Math.max(...values)];
  }, [grid]);
  const cells = useMemo((): Cells => {
    const palette = [{ colour: sequential(NaN, night) }, ...Array.from({ length: shades }, (_, i) => ({ colour: sequential(i / (shades - 1), night) }))];
    const place = (value: number) => (high > low ? Math.log(value / low) / Math.log(high / low) : 1);
    const figures = grid.rows.length <= few && grid.columns.length <= few;
    return {
      rows: grid.rows.map(name), columns: grid.columns.map(name), palette,
      tone: (row, column) => {
        const value = cellAt(grid, row, column)?.value ?? 0;
        return value > 0 ? 1 + Math.round(place(value) * (shades - 1)) : 0;
      },
      ...(figures && { figure: (row: number, column: number) => textOf(grid, row, column, amount) }),
    };
  }, [grid, amount, night, low, high]);
  const pair = ({ row, column }: Cursor): [string, string] => [grid.rows[row] ?? "", grid.columns[column] ?? ""];
  const card = (at: Cursor) => {
    const cell = cellAt(grid, at.row, at.column);
    const [from, to] = pair(at);
    return (
      <>
        <strong>{name(from)} → {name(to)}</strong>
        {cell ? <p class="small">{cell.bounded && "at least "}{amountText(cell.value, amount)}{!cell.bounded && cell.error > 0 && ` ± ${amountText(cell.error, amount)}`}<br /><span class="soft">{count(cell.packets)} packets counted</span></p> : <p class="small soft">no measured traffic</p>}
      </>
    );
  };
  const say = (at: Cursor) => `${name(pair(at)[0])} to ${name(pair(at)[1])}: ${textOf(grid, at.row, at.column, amount) || "no measured traffic"}`;
  return (
    <div class="traffic-picture">
      <Matrix label={label} cells={cells} version={version} most={720} say={say} card={card} address={(at) => address(...pair(at))} />
      {high > 0 && <Scale low={low} high={high} amount={amount} night={night} />}
    </div>
  );
}

const textOf = (grid: Grid, row: number, column: number, amount: Amount): string => {
  const cell = cellAt(grid, row, column);
  return cell ? `${cell.bounded ? "≥ " : ""}${amountText(cell.value, amount)}` : "";
};

function Scale({ low, high, amount, night }: { low: number; high: number; amount: Amount; night: boolean }) {
  const gradient = `linear-gradient(to right, ${Array.from({ length: 9 }, (_, i) => sequential(i / 8, night)).join(", ")})`;
  const ticks = high > low ? [low, Math.sqrt(low * high), high] : [high];
  return (
    <div class="legend small soft">
      <div class="legend-scale">
        <span>{amount === "bytes" ? "Bytes" : "Packets"}, row to column</span>
        {ticks.length === 1
          ? <span class="legend-state"><i style={{ background: sequential(1, night) }} />{amountText(high, amount)}</span>
          : <span class="legend-bar"><i style={{ background: gradient }} /><span class="legend-ticks">{ticks.map((t, i) => <span key={i} style={{ left: `${i * 50}%` }}>{amountText(t, amount)}</span>)}</span></span>}
      </div>
      <span class="legend-state"><i class="bordered" style={{ background: sequential(NaN, night) }} />no measured traffic</span>
    </div>
  );
}
