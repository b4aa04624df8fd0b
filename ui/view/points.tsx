// Default views of points: tables and charts that follow from their descriptors.
import { useMemo, useState } from "preact/hooks";
import type { Line as ChartLine, Range } from "../chart/plot.ts";
import { TimeChart } from "../chart/time.tsx";
import { cellText, columnOf, drawn, heading, isNumber, linesOf, numberText, tableOf, type PointTable, type Where } from "../data/points.ts";
import { useResource } from "../data/resource.ts";
import type { Line } from "../gen/data_pb.ts";
import type { Point, PointView } from "../gen/session_pb.ts";
import { Table, type Column } from "../part/table.tsx";

const hourMs = 3600e3;
const colours = ["--out", "--back", "--busy", "--clock", "--heat-4", "--heat-2"];
const dashes = [undefined, [5, 3], [2, 2]];

/** PointPanels shows the points with these names, a panel each; where selects their rows. */
export function PointPanels({ names, where }: { names: readonly string[]; where: Where }) {
  const known = useResource(drawn).value.value ?? [];
  return <>{known.filter((p) => names.includes(p.name) && p.views.length > 0).map((p) => <PointPanel key={p.name} point={p} where={where} />)}</>;
}

function PointPanel({ point, where }: { point: Point; where: Where }) {
  const id = `point-${point.name}`;
  return (
    <section class="panel point" aria-labelledby={id}>
      <header><h2 id={id}>{heading(point.name).replace(/^./, (c) => c.toUpperCase())}</h2><span class="soft small">{point.doc}, last hour</span></header>
      {point.views.map((view) => view.kind === "lines"
        ? <LinesView key={view.title} point={point} view={view} where={where} />
        : <TableView key={view.title} view={view} where={where} />)}
    </section>
  );
}

function TableView({ view, where }: { view: PointView; where: Where }) {
  const { value, fault } = useResource(useMemo(() => tableOf(view, where), [view, JSON.stringify(where)]));
  return (
    <div class="point-view">
      <h3>{view.title}</h3>
      {fault.value && <p class="field-fault" role="alert">{fault.value}</p>}
      {value.value ? <PointRows title={view.title} table={value.value} /> : !fault.value && <p class="soft">Loading…</p>}
    </div>
  );
}

/** PointRows shows the newest rows of a point. */
export function PointRows({ title, table }: { title: string; table: PointTable }) {
  const columns = table.columns.map((c, i): Column<(typeof table.rows)[number]> => ({
    key: c.name, title: heading(c.name), help: c.doc, number: isNumber(c), cell: (row) => (row[i] ? cellText(row[i], c) : "–"),
  }));
  return <Table caption={title} columns={columns} rows={table.rows} keyOf={(row) => String(table.rows.indexOf(row))} empty="No rows in the last hour." />;
}

function LinesView({ point, view, where }: { point: Point; view: PointView; where: Where }) {
  const { value, fault } = useResource(useMemo(() => linesOf(view, where), [view, JSON.stringify(where)]));
  const [zoom, setZoom] = useState<Range>();
  const got = value.value;
  const to = got?.to ?? Date.now();
  const chart = useMemo(() => chartOf(view, got?.lines ?? [], to - hourMs, got?.step ?? 0), [got]);
  const unit = columnOf(point, view, view.columns[0] ?? "")?.unit ?? "";
  return (
    <div class="point-view">
      <TimeChart title={view.title} times={chart.times} lines={chart.lines} range={zoom ?? { from: begin(chart, to), to }} onRange={setZoom} group={`point ${point.name}`} height={200}
        format={(n) => numberText(n, unit)} empty={fault.value ?? (got ? "No rows in the last hour." : "Loading…")} />
      {zoom && <button type="button" class="quiet" onClick={() => setZoom(undefined)}>Show all</button>}
    </div>
  );
}

const shortestMs = 60e3;

/** begin is where a chart of the last hour begins: with its first value, so that a short run fills it. */
export function begin({ times, lines }: { times: readonly number[]; lines: readonly ChartLine[] }, to: number): number {
  const first = times.findIndex((_, i) => lines.some((l) => !Number.isNaN(l.values[i] ?? NaN)));
  return first < 0 ? to - hourMs : Math.max(to - hourMs, Math.min(times[Math.max(0, first - 1)] ?? 0, to - shortestMs));
}

/** The lines of a chart on one grid of times: a line for each group and column. */
export function chartOf(view: PointView, lines: readonly Line[], from: number, step: number): { times: number[]; lines: ChartLine[] } {
  if (!(step > 0)) return { times: [], lines: [] };
  const times = Array.from({ length: Math.ceil(hourMs / step) }, (_, i) => from + i * step);
  return {
    times,
    lines: lines.flatMap((line, k) => view.columns.map((column, j): ChartLine => {
      const values = new Float64Array(times.length).fill(NaN);
      line.timesMs.forEach((t, i) => {
        const at = Math.round((Number(t) - from) / step);
        if (at >= 0 && at < times.length) values[at] = line.values[j]?.values[i] ?? NaN;
      });
      const group = view.groupBy.map((by) => line.labels[by]).filter(Boolean).join(" ");
      const label = [group, view.columns.length > 1 || !group ? heading(column) : ""].filter(Boolean).join(", ");
      return { label, values, colour: colours[k % colours.length] ?? "--out", dash: dashes[j % dashes.length] };
    })),
  };
}
