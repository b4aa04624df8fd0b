// The matrix of all pairs with its controls and legend.
import { useMemo, useRef } from "preact/hooks";
import { Matrix } from "../../chart/matrix.tsx";
import type { Cells, Cursor } from "../../chart/matrix-paint.ts";
import type { Agent } from "../../gen/agent_pb.ts";
import type { Session } from "../../gen/session_pb.ts";
import { ends } from "../../data/agents.ts";
import type { Measure } from "../../data/pair-table.ts";
import { pairsFault, pairsVersion, pairTable } from "../../data/pairs.ts";
import { count } from "../../data/quantity.ts";
import { href, refine, route } from "../../data/route.ts";
import { Notice } from "../../part/notice.tsx";
import { dark } from "../../part/theme.tsx";
import { Controls } from "./controls.tsx";
import { PairCard } from "./card.tsx";
import { cellText, sayCell } from "./cell.ts";
import { NothingMeasured } from "./empty.tsx";
import { FewMatrix } from "./few.tsx";
import { choose, few, Measured, measures, type Choice } from "./hosts.ts";
import { Legend } from "./legend.tsx";
import { paletteOf, Picture, type Ground } from "./picture.ts";
import { measureWords } from "./state.ts";
import { WorstPairs } from "./worst.tsx";

interface MatrixPanelProps {
  agents: readonly Agent[];
  sessions: readonly Session[];
  /** Show only this session; empty: all. */
  only: string;
}

export const measureOf = (text: string | null): Measure => (text === "p99" || text === "loss" ? text : "delay");

/** MatrixPanel shows source × destination, and beside it the worst pairs. */
export function MatrixPanel({ agents, sessions, only }: MatrixPanelProps) {
  void pairsVersion.value;
  const { query } = route.value;
  const measure = measureOf(query.get("by"));
  const choice: Choice = { filter: query.get("hosts") ?? "", group: query.get("group") ?? "", all: query.get("all") === "1", ends: ends.value };
  const picture = usePicture(agents, sessions, only, measure, choice);
  const palette = useMemo(() => paletteOf(measure, dark.value, groundOf()), [measure, dark.value]);
  const active = sessions.filter(measures);
  const scheduled = sessions.filter((s) => s.state === "scheduled").length;
  const hosts = agents.filter((a) => a.state !== "revoked").length + ends.value.length;
  if (active.length === 0 && pairTable.size === 0) return <section class="panel" aria-label="Pairs"><NothingMeasured hosts={hosts} scheduled={scheduled} /></section>;
  return (
    <section class="panel matrix-panel" aria-labelledby="matrix-title">
      <header>
        <h2 id="matrix-title">All pairs</h2>
        <Controls agents={agents} sessions={active} measure={measure} only={only} choice={choice} idle={picture.chosen.idle} />
      </header>
      {pairsFault.value && <p class="fault" role="alert">No live figures: {pairsFault.value} Retrying.</p>}
      {pairTable.left > 0 && <p class="fault">{count(pairTable.left)} pairs exceed the capacity of this page and are not shown.</p>}
      <div class={`matrix-split ${picture.columns.length > few ? "wide" : ""}`}>
        <div class="matrix-main">
          <Body picture={picture} palette={palette} measure={measure} only={only} filter={choice.filter} />
          <Legend measure={measure} span={picture.span} palette={palette} />
        </div>
        <WorstPairs picture={picture} only={only} />
      </div>
    </section>
  );
}

/** The picture, rebuilt when hosts or sessions change and updated with every second of figures. */
function usePicture(agents: readonly Agent[], sessions: readonly Session[], only: string, measure: Measure, choice: Choice): Picture {
  const before = useRef<{ picture: Picture; only: string } | undefined>(undefined);
  // The lists are polled and rarely change: what is derived from them is kept.
  const measured = useMemo(() => new Measured(sessions, only), [sessionsKey(sessions), only]);
  const chosen = useMemo(() => choose(agents, measured, pairTable, choice),
    [agentsKey(agents), measured, choice.filter, choice.group, choice.all, choice.ends, pairTable.size, pairTable.agents]);
  const picture = useMemo(() => {
    const next = new Picture(chosen, measured, measure);
    return before.current?.only === only ? next.inherit(before.current.picture) : next;
  }, [chosen, measured, measure]);
  before.current = { picture, only };
  return useMemo(() => picture.update(pairTable), [picture, pairsVersion.value]);
}

const sessionsKey = (sessions: readonly Session[]): string => sessions.map((s) => `${s.spec?.name} ${s.state} ${s.revision} ${s.pairs.length}`).join("\n");

const agentsKey = (agents: readonly Agent[]): string => agents.map((a) => `${a.name} ${a.state === "revoked"} ${Object.entries(a.labels).join(" ")}`).join("\n");

function Body({ picture, palette, measure, only, filter }: { picture: Picture; palette: Cells["palette"]; measure: Measure; only: string; filter: string }) {
  const { rows, columns, chosen } = picture;
  const cells = useMemo<Cells>(() => ({
    rows, columns, palette, rowGroups: chosen.rows.groups, columnGroups: chosen.columns.groups,
    tone: (row, column) => picture.tone(row, column),
    ...(Math.max(rows.length, columns.length) <= 40 && {
      figure: (row: number, column: number) => cellText(picture, row, column),
      course: (row: number, column: number, out: Float32Array) => course(picture, row, column, out),
    }),
  }), [picture, palette]);
  if (rows.length === 0 || columns.length === 0) {
    return (
      <Notice title={filter ? "No matching hosts" : "No measured pairs"} action={filter && <button type="button" onClick={() => refine({ hosts: undefined })}>Clear filter</button>}>
        {filter ? "The filter matches parts of names and labels, such as site=office." : "The running sessions have no pairs of hosts."}
      </Notice>
    );
  }
  const label = `${measureWords[measure].long}, from the host of the row to the host of the column`;
  const address = (at: Cursor) => addressOf(picture, at, only);
  if (rows.length <= few && columns.length <= few) return <FewMatrix picture={picture} palette={palette} label={label} address={address} />;
  return (
    <Matrix label={label} cells={cells} version={pairsVersion.value} most={mostHeight()} address={address}
      say={(at) => sayCell(picture, at)} card={(at) => <PairCard picture={picture} at={at} />} />
  );
}

const mostHeight = (): number => Math.max(320, Math.round(window.innerHeight * 0.78));

/** Address of a cell's pair; none on the diagonal. */
function addressOf(picture: Picture, at: Cursor, only: string): string | undefined {
  const [source, destination] = [picture.rows[at.row], picture.columns[at.column]];
  if (!source || !destination || source === destination) return undefined;
  return href(["pair", source, destination], { session: only });
}

function course(picture: Picture, row: number, column: number, out: Float32Array): boolean {
  const state = picture.state(row, column);
  if (state !== "live" && state !== "stale") return false;
  pairTable.history(picture.pair(row, column), picture.measure, out);
  return true;
}

export function groundOf(): Ground {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return { panel: of("--panel"), ground: of("--ground"), empty: of("--empty"), line: of("--line") };
}
