// The newest windows as a table, for screen readers and exact values.
import type { Drawn } from "../../data/pair.ts";
import { clock, count, duration, moment, rate, share } from "../../data/quantity.ts";
import { lossIn, measuredIn, rateIn, type Clock, type Figures } from "../../data/window.ts";
import { Table, type Column } from "../../part/table.tsx";

const newest = 60;

interface Row {
  start: number;
  way: string;
  f: Figures;
}

/** FiguresTable is a table that is initially closed. */
export function FiguresTable({ drawn, names, clock, open, onOpen }: { drawn: Drawn; names: [string, string]; clock: Clock; open: boolean; onOpen: (open: boolean) => void }) {
  return (
    <details class="panel pair-table" open={open} onToggle={(e) => onOpen(e.currentTarget.open)}>
      <summary>Figures as a table</summary>
      {open && <Table caption={clock === "corrected" ? "Newest windows, both directions, delays corrected by the estimated clock offset" : "Newest windows, both directions"} columns={columnsFor(drawn, clock)} rows={rowsOf(drawn, names)} keyOf={(r) => `${r.start} ${r.way}`} empty="No data in this period." />}
    </details>
  );
}

function rowsOf(drawn: Drawn, names: [string, string]): Row[] {
  const inside = (f: Figures): boolean => f.start + drawn.step > drawn.from && f.start < drawn.to;
  const rows = [drawn.out, drawn.back].flatMap((list, i) => list.filter(inside).slice(-newest).map((f): Row => ({ start: f.start, way: names[i] ?? "", f })));
  return rows.sort((a, b) => b.start - a.start).slice(0, newest);
}

function columnsFor(drawn: Drawn, shown: Clock): Column<Row>[] {
  const time = drawn.to - drawn.from > 86400e3 ? moment : clock;
  const of = shown === "corrected" ? ", corrected" : "";
  const figure = (title: string, of: (f: Figures) => string): Column<Row> => ({ key: title, title, number: true, cell: (r) => of(r.f) });
  return [
    { key: "start", title: "Start", cell: (r) => time(r.start) },
    { key: "way", title: "Direction", cell: (r) => r.way },
    figure("Samples", (f) => count(f.delay.count)), figure(`Median${of}`, (f) => duration(f.delay.p50)), figure(`p90${of}`, (f) => duration(f.delay.p90)), figure(`p99${of}`, (f) => duration(f.delay.p99)),
    figure(`Min${of}`, (f) => duration(f.delay.min)), figure(`Max${of}`, (f) => duration(f.delay.max)), figure("Loss", (f) => share(lossIn(f))),
    figure("IPDV p90", (f) => duration(f.ipdv.p90)), figure("Throughput", (f) => rate(rateIn(f, measuredIn(f, drawn.step, drawn.now)))),
    figure("Packets", (f) => count(f.packets)), figure(shown === "corrected" ? "Offset ±" : "Clock ±", (f) => Number.isNaN(f.clockError) ? "unknown" : f.clockError === 0 ? "shared" : duration(f.clockError)),
  ];
}
