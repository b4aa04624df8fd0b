// The service levels of pairs as a table.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { intervalText, monthRange, quantileName, worstOf, type LevelQuestion } from "../../data/levels.ts";
import { count, duration, ratio } from "../../data/quantity.ts";
import type { Verdict } from "../../data/reports.ts";
import { href } from "../../data/route.ts";
import type { ServiceLevel } from "../../gen/flow_pb.ts";
import { Table, type Column, type Sort } from "../../part/table.tsx";
import { VerdictMark } from "../../part/verdict.tsx";

const firstRows = 100;
const verdictOrder: readonly (string | undefined)[] = ["missed", "undecided", "met", undefined];

/** By key of a column; larger first. */
const figures: Record<string, (l: ServiceLevel) => number> = {
  availability: (l) => l.availability, delay: (l) => l.delayNs, loss: (l) => l.loss, packets: (l) => Number(l.expected),
};

/** Sorted levels: by a column, or those that miss a target first and then those with most packets, as they come. */
export function sorted(levels: readonly ServiceLevel[], sort: Sort | undefined): ServiceLevel[] {
  const list = [...levels];
  if (!sort) return list.sort((a, b) => verdictOrder.indexOf(worstOf(a)) - verdictOrder.indexOf(worstOf(b)));
  const sign = sort.ascending ? 1 : -1;
  const figure = figures[sort.key];
  if (!figure) return list.sort((a, b) => sign * `${a.source} ${a.destination}`.localeCompare(`${b.source} ${b.destination}`, "en", { numeric: true }));
  const known = (l: ServiceLevel): number => (Number.isNaN(figure(l)) ? sign * Infinity : figure(l)); // unknown ones last
  return list.sort((a, b) => (known(a) === known(b) ? 0 : sign * (known(a) < known(b) ? -1 : 1)));
}

/** LevelTable lists pairs with their figures, intervals and verdicts. */
export function LevelTable({ levels, question, stale }: { levels: readonly ServiceLevel[]; question: LevelQuestion; stale: boolean }) {
  const [sort, setSort] = useState<Sort>();
  const [rows, setRows] = useState(firstRows);
  const list = sorted(levels, sort);
  return (
    <>
      <Table caption="Service levels of pairs" columns={columnsOf(question)} rows={list.slice(0, rows)} keyOf={(l) => `${l.source} ${l.destination}`} sort={sort ?? { key: "", ascending: true }} onSort={setSort} stale={stale} />
      {list.length > rows && <button type="button" class="quiet" onClick={() => setRows(rows + 200)}>Show more ({list.length - rows})</button>}
    </>
  );
}

function columnsOf(question: LevelQuestion): Column<ServiceLevel>[] {
  const [from, to] = monthRange(question.month) ?? [0, 0];
  return [
    { key: "pair", title: "Pair", help: "From the host that marks to the one that reads", cell: (l) => <a href={href(["pair", l.source, l.destination], { from, to, session: question.session })}>{l.source} → {l.destination}</a> },
    { key: "availability", title: "Availability", number: true, help: "Share of the minutes with traffic that are up",
      cell: (l) => <Figure text={ratio(l.availability, 3)} verdict={l.availabilityVerdict} under={<>{count(l.down)} min down{l.silent > 0 && <>, <span class={l.silent > l.up + l.down ? "level-scarce" : undefined}>{duration(l.silent * 60e9)} without traffic</span></>}</>} /> },
    { key: "delay", title: `Delay, ${quantileName(question.quantile)}`, number: true, help: "One-way delay; its interval includes the errors of the clocks",
      cell: (l) => <Figure text={duration(l.delayNs)} verdict={l.delayVerdict} under={`${intervalText(l.delayLowNs, l.delayHighNs, duration) ?? `no interval: ${delayLack(l)}`}${l.clockUnknown > 0 ? "" : `, clocks ${clockOf(l)}`}`} /> },
    { key: "loss", title: "Loss", number: true, help: "Share of lost packets; its interval is about the rate",
      cell: (l) => <Figure text={ratio(l.loss, 4)} verdict={l.lossVerdict} under={intervalText(l.lossLow, l.lossHigh, (v) => ratio(v, 4)) ?? `no interval: ${lossLack(l)}`} /> },
    { key: "packets", title: "Packets", number: true, help: "Marked packets that were received or are known as lost",
      cell: (l) => <Figure text={count(l.expected)} verdict="" under={`${count(l.blocks)} ${l.blocks === 1 ? "block" : "blocks"} of ${lengthOf(Number(l.blockMs))}${l.sampled > 1 ? `, delays of 1 row in ${l.sampled}` : ""}`} /> },
  ];
}

/** Why there is no interval, as in api/level. */
const lossLack = (l: ServiceLevel): string => (l.expected === 0n ? "no packets" : "fewer than 10 blocks");
const delayLack = (l: ServiceLevel): string => (l.delays === 0n ? "no delays" : l.clockUnknown > 0 ? "clock error unknown" : lossLack(l));

const clockOf = (l: ServiceLevel): string => (l.delays === 0n ? "–" : `±${duration(Number(l.clockErrorNs))}`);

const lengthOf = (ms: number): string => {
  const hours = Math.round(ms / 3600e3);
  return hours % 24 === 0 && hours > 0 ? `${hours / 24} d` : `${hours} h`;
};

/** A figure with its verdict, and what is known of it below. */
function Figure({ text, verdict, under }: { text: string; verdict: string; under: ComponentChildren }) {
  return (
    <>
      <span class="level-figure">{verdict && <VerdictMark verdict={verdict as Verdict} />}{text}</span>
      <span class="level-under">{under}</span>
    </>
  );
}
