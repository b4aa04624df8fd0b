// Layout of runs in a week: blocks in days, side by side where they overlap, and bars
// above for long runs. Times are local.
import type { Run } from "../gen/session_pb.ts";
import { millis } from "./time.ts";

const minute = 60_000;
const hour = 60 * minute;

/** Runs of at least this length are bars. */
const long = 20 * hour;
/** Minimum height of a block. */
const least = 30 * minute;

/** A run, or several consecutive short runs of one session. */
export interface Block {
  session: string;
  state: string;
  reason: string;
  start: number;
  /** Undefined: open-ended. */
  end: number | undefined;
  /** Number of runs. */
  runs: number;
}

/** A block in a day. */
export interface Placed {
  block: Block;
  /** Start and length as fractions of the day. */
  top: number;
  height: number;
  /** Column and number of columns. */
  column: number;
  columns: number;
}

/** A bar across days. */
export interface Bar {
  block: Block;
  /** First day, and the day after the last, 0 to 7. */
  from: number;
  to: number;
  lane: number;
  /** It extends beyond the week. */
  before: boolean;
  after: boolean;
}

export interface Week {
  /** Eight midnights, so that each day has an end; with daylight saving a day has 23 to 25 hours. */
  days: number[];
  placed: Placed[][];
  bars: Bar[];
  lanes: number;
}

/** Midnights of a week from Monday, by its offset from the week of a time. */
export function weekOf(ms: number, weeks = 0): number[] {
  const d = new Date(ms);
  const monday = d.getDate() - ((d.getDay() + 6) % 7) + 7 * weeks;
  return Array.from({ length: 8 }, (_, i) => new Date(d.getFullYear(), d.getMonth(), monday + i).getTime());
}

/** Runs as blocks; consecutive short runs of a session are combined. */
export function blocks(runs: readonly Run[]): Block[] {
  const all: Block[] = [];
  const open = new Map<string, Block>();
  for (const run of [...runs].sort((a, b) => (millis(a.start) ?? 0) - (millis(b.start) ?? 0))) {
    const start = millis(run.start);
    if (start === undefined) continue;
    const end = millis(run.end);
    const key = `${run.session} ${run.state}`;
    const last = open.get(key);
    if (last?.end !== undefined && end !== undefined && end - start < least && start - Math.max(last.end, last.start + least / 2) < least / 2 && sameDay(last.start, start)) {
      last.end = Math.max(last.end, end);
      last.runs++;
      continue;
    }
    const block: Block = { session: run.session, state: run.state, reason: run.reason, start, end, runs: 1 };
    all.push(block);
    if (end !== undefined && end - start < least) open.set(key, block);
    else open.delete(key);
  }
  return all;
}

function sameDay(a: number, b: number): boolean {
  return new Date(a).toDateString() === new Date(b).toDateString();
}

/** The layout of a week. */
export function layout(runs: readonly Run[], days: number[], now: number): Week {
  const begin = days[0] ?? 0;
  const finish = days[7] ?? 0;
  const week: Week = { days, placed: [[], [], [], [], [], [], []], bars: [], lanes: 0 };
  const endOf = (b: Block): number => b.end ?? Math.max(finish, now);
  const touching = blocks(runs).filter((b) => b.start < finish && (endOf(b) > begin || b.start >= begin));
  const lasting = touching.filter((b) => b.end === undefined || (b.runs === 1 && b.end - b.start >= long));
  bars(week, lasting, endOf);
  const short = touching.filter((b) => !lasting.includes(b));
  for (let day = 0; day < 7; day++) {
    const [from, to] = [days[day] ?? 0, days[day + 1] ?? 0];
    week.placed[day] = columns(short.filter((b) => b.start < to && (endOf(b) > from || (b.start === from))), from, to);
  }
  return week;
}

function bars(week: Week, all: Block[], endOf: (b: Block) => number): void {
  const free: number[] = []; // first free day by lane
  const [begin, finish] = [week.days[0] ?? 0, week.days[7] ?? 0];
  for (const block of all) {
    const from = Math.max(0, week.days.findLastIndex((d) => d <= block.start));
    const end = endOf(block);
    const until = week.days.findIndex((d) => d >= end);
    const to = Math.max(from + 1, until < 0 ? 7 : until);
    let lane = free.findIndex((day) => day <= from);
    if (lane < 0) lane = free.length;
    free[lane] = to;
    week.bars.push({ block, from, to, lane, before: block.start < begin, after: block.end === undefined || end > finish });
  }
  week.lanes = free.length;
}

/** Places the blocks of a day: overlapping ones share its width. */
function columns(all: Block[], from: number, to: number): Placed[] {
  const placed: Placed[] = [];
  let cluster: Placed[] = [];
  let clusterEnd = 0;
  let ends: number[] = []; // by column
  const close = (): void => {
    for (const p of cluster) p.columns = ends.length;
    cluster = [];
    ends = [];
  };
  for (const block of [...all].sort((a, b) => a.start - b.start || (b.end ?? 0) - (a.end ?? 0))) {
    let start = Math.max(block.start, from);
    const end = Math.min(Math.max(block.end ?? to, start + least), to);
    start = Math.min(start, to - least); // visible even just before midnight
    if (start >= clusterEnd) close();
    let column = ends.findIndex((e) => e <= start);
    if (column < 0) column = ends.length;
    ends[column] = end;
    clusterEnd = cluster.length === 0 ? end : Math.max(clusterEnd, end);
    const one = { block, top: (start - from) / (to - from), height: (end - start) / (to - from), column, columns: 1 };
    cluster.push(one);
    placed.push(one);
  }
  close();
  return placed;
}
