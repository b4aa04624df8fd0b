// Figures of all pairs over the last minute, in typed arrays: 200
// hosts have 39,800 pairs with new figures every second.

/** One second of all pairs, as in WatchPairsResponse. */
export interface Second {
  startMs: number;
  agents: string[];
  sources: ArrayLike<number>;
  destinations: ArrayLike<number>;
  packets: ArrayLike<number>;
  expected: ArrayLike<number>;
  lost: ArrayLike<number>;
  p50Ns: ArrayLike<number>;
  p99Ns: ArrayLike<number>;
  rate: ArrayLike<number>;
  clockErrorNs: ArrayLike<number>;
}

/** Metric of the colours and sparklines. */
export type Measure = "delay" | "p99" | "loss";

/** Seconds kept per pair. */
export const kept = 60;
/** Seconds over which loss and packet rate are summed, to smooth them. */
export const recent = 10;
/** Limits of hosts and pairs; the rest is only counted. */
export const limits = { agents: 1024, pairs: 65_536 };

/** A list of numbers with room for more. */
type Numbers = Uint16Array | Uint32Array | Float32Array | Float64Array;

/** A copy with more room. */
function grown<A extends Numbers>(list: A, room: number): A {
  const next = new (list.constructor as new (room: number) => A)(room);
  next.set(list);
  return next;
}

/** One second by pair number. */
class Column {
  start = -1; // number of the second since 1970; -1: empty
  packets = new Uint32Array(0);
  expected = new Uint32Array(0);
  lost = new Uint32Array(0);
  p50 = new Float32Array(0);
  p99 = new Float32Array(0);

  constructor(room: number) {
    this.grow(room);
  }
  clear(start: number): void {
    this.start = start;
    for (const counter of [this.packets, this.expected, this.lost]) counter.fill(0);
    for (const time of [this.p50, this.p99]) time.fill(NaN);
  }
  grow(room: number): void {
    const known = this.p50.length;
    for (const name of ["packets", "expected", "lost"] as const) this[name] = grown(this[name], room);
    for (const name of ["p50", "p99"] as const) this[name] = grown(this[name], room).fill(NaN, known);
  }
}

/** PairTable holds the last minute and the latest figures of all pairs. */
export class PairTable {
  /** Names of the hosts with figures. */
  agents: string[] = [];
  /** Number of pairs. */
  size = 0;
  /** The latest second, ms since 1970; undefined before the first. */
  newest: number | undefined;
  /** Pairs of a second beyond the limits. */
  left = 0;
  /** By pair: host numbers. */
  source = new Uint16Array(0);
  destination = new Uint16Array(0);
  /** By pair: number of the first and last second with figures. */
  first = new Float64Array(0);
  last = new Float64Array(0);
  /** By pair: the latest figures. */
  p50 = new Float32Array(0);
  p99 = new Float32Array(0);
  rate = new Float32Array(0);
  clockError = new Float32Array(0);
  /** By pair: sums over the last seconds. */
  packets = new Float64Array(0);
  expected = new Float64Array(0);
  lost = new Float64Array(0);

  private room = 0;
  private columns: Column[] = [];
  private places = new Map<string, number>();
  private width = 0; // of the matrix below
  private square = new Int32Array(0); // source × width + destination: number of the pair + 1
  private restarted = false;
  private arrived = 0;

  /** A stream begins: its first second clears the table, because host numbers change. */
  begin(): void {
    this.restarted = true;
  }

  /** Clears the table. */
  clear(): void {
    Object.assign(this, new PairTable());
  }

  /** Takes a second or part of one; pairs already present are replaced. A message without pairs is a heartbeat. */
  take(second: Second, now = performance.now()): void {
    if (this.restarted) this.clear();
    for (const name of second.agents) {
      this.places.set(name, this.agents.length);
      this.agents.push(name);
    }
    this.widen();
    if (second.sources.length === 0) return;
    const start = Math.floor(second.startMs / 1000);
    const newest = this.newest === undefined ? -Infinity : this.newest / 1000;
    if (start <= newest - kept) return; // too old
    if (start > newest) {
      for (const column of this.columns) if (column && column.start > newest - recent && column.start <= start - recent) this.takeOff(column);
      this.newest = start * 1000;
      this.arrived = now;
    }
    this.fill(second, start);
  }

  /** Milliseconds since the pair's latest second, by the server's clock. */
  age(pair: number, now = performance.now()): number {
    if (this.newest === undefined) return Infinity;
    return Math.max(0, this.newest + (now - this.arrived) - (this.last[pair] ?? -Infinity) * 1000);
  }

  /** Number of a pair; -1: no figures. */
  find(source: string, destination: string): number {
    return this.between(this.place(source), this.place(destination));
  }

  /** Number of a host for `between`; -1: unknown. */
  place(agent: string): number {
    const at = this.places.get(agent) ?? -1;
    return at < this.width ? at : -1;
  }

  /** Number of the pair of two host numbers; -1: no figures. */
  between(from: number, to: number): number {
    return from < 0 || to < 0 ? -1 : (this.square[from * this.width + to] ?? 0) - 1;
  }

  /** Loss ratio over the last seconds; NaN: no packets expected. */
  loss(pair: number): number {
    return (this.lost[pair] ?? 0) / (this.expected[pair] || NaN);
  }

  /** Marked packets per second over the last seconds. */
  packetRate(pair: number): number {
    const seconds = (this.newest ?? 0) / 1000 - (this.first[pair] ?? 0) + 1;
    return (this.packets[pair] ?? 0) / Math.max(1, Math.min(recent, seconds));
  }

  /** The figure of a metric; NaN: none. */
  figure(pair: number, measure: Measure): number {
    if (measure === "loss") return this.loss(pair);
    return (measure === "delay" ? this.p50 : this.p99)[pair] ?? NaN;
  }

  /** Writes the last minute of a pair, oldest first; NaN: no value. */
  history(pair: number, measure: Measure, out: Float32Array): void {
    const end = (this.newest ?? 0) / 1000;
    for (let i = 0; i < out.length; i++) {
      const start = end - out.length + 1 + i;
      const column = this.columns[start % kept];
      if (column === undefined || column.start !== start) out[i] = NaN;
      else if (measure === "loss") out[i] = (column.lost[pair] ?? 0) / (column.expected[pair] || NaN);
      else out[i] = (measure === "delay" ? column.p50 : column.p99)[pair] ?? NaN;
    }
  }

  /** By pair: expected and lost packets over all kept seconds. */
  minute(): { expected: Float64Array; lost: Float64Array } {
    const expected = new Float64Array(this.size);
    const lost = new Float64Array(this.size);
    const end = (this.newest ?? 0) / 1000;
    for (const column of this.columns) {
      if (!column || column.start <= end - kept || column.start > end) continue;
      for (let i = 0; i < this.size; i++) {
        expected[i] = (expected[i] ?? 0) + (column.expected[i] ?? 0);
        lost[i] = (lost[i] ?? 0) + (column.lost[i] ?? 0);
      }
    }
    return { expected, lost };
  }

  private fill(second: Second, start: number): void {
    const { sources, destinations, packets, expected, lost, p50Ns, p99Ns, rate, clockErrorNs } = second;
    const at = new Int32Array(sources.length);
    let left = 0;
    for (let i = 0; i < at.length; i++) {
      at[i] = this.number(sources[i] ?? -1, destinations[i] ?? -1, start);
      if (at[i] === -1) left++;
    }
    this.left = left;
    const column = this.opened(start);
    const { last, p50, p99, rate: rates, clockError } = this;
    const counts = this.counts(start);
    for (let i = 0; i < at.length; i++) {
      const pair = at[i] ?? -1;
      if (pair < 0) continue;
      const median = p50Ns[i] ?? NaN;
      const high = p99Ns[i] ?? NaN;
      if (counts) {
        this.packets[pair] = (this.packets[pair] ?? 0) + (packets[i] ?? 0) - (column.packets[pair] ?? 0);
        this.expected[pair] = (this.expected[pair] ?? 0) + (expected[i] ?? 0) - (column.expected[pair] ?? 0);
        this.lost[pair] = (this.lost[pair] ?? 0) + (lost[i] ?? 0) - (column.lost[pair] ?? 0);
      }
      column.packets[pair] = packets[i] ?? 0;
      column.expected[pair] = expected[i] ?? 0;
      column.lost[pair] = lost[i] ?? 0;
      column.p50[pair] = median;
      column.p99[pair] = high;
      if (start < (last[pair] ?? 0)) continue; // a late second changes only the history
      last[pair] = start;
      rates[pair] = rate[i] ?? NaN;
      clockError[pair] = clockErrorNs[i] ?? NaN;
      if (median === median) p50[pair] = median;
      if (high === high) p99[pair] = high;
    }
  }

  /** The slot of a second; older contents are cleared. */
  private opened(start: number): Column {
    const at = start % kept;
    const column = (this.columns[at] ??= new Column(this.room));
    if (column.start !== start) column.clear(start);
    return column;
  }

  /** Reports whether a second is among the summed ones. */
  private counts(start: number): boolean {
    const end = (this.newest ?? 0) / 1000;
    return start > end - recent && start <= end;
  }

  /** Subtracts a second from the sums. */
  private takeOff(column: Column): void {
    const { size, packets, expected, lost } = this;
    for (let i = 0; i < size; i++) {
      packets[i] = (packets[i] ?? 0) - (column.packets[i] ?? 0);
      expected[i] = (expected[i] ?? 0) - (column.expected[i] ?? 0);
      lost[i] = (lost[i] ?? 0) - (column.lost[i] ?? 0);
    }
  }

  /** Number of a pair, added if new; -1: limit reached. */
  private number(from: number, to: number, start: number): number {
    if (from < 0 || to < 0 || from >= this.width || to >= this.width) return -1;
    const at = from * this.width + to;
    const known = (this.square[at] ?? 0) - 1;
    if (known >= 0) return known;
    if (this.size >= limits.pairs) return -1;
    const pair = this.size++;
    if (pair >= this.room) this.grow();
    this.square[at] = pair + 1;
    this.source[pair] = from;
    this.destination[pair] = to;
    this.first[pair] = start;
    this.last[pair] = start;
    this.p50[pair] = this.p99[pair] = this.rate[pair] = this.clockError[pair] = NaN;
    return pair;
  }

  private grow(): void {
    const room = (this.room = Math.max(64, this.room * 2));
    for (const name of ["source", "destination"] as const) this[name] = grown(this[name], room);
    for (const name of ["first", "last", "packets", "expected", "lost"] as const) this[name] = grown(this[name], room);
    for (const name of ["p50", "p99", "rate", "clockError"] as const) this[name] = grown(this[name], room);
    for (const column of this.columns) column?.grow(room);
  }

  /** Grows the matrix for all hosts. */
  private widen(): void {
    const want = Math.min(this.agents.length, limits.agents);
    if (want <= this.width) return;
    const width = Math.min(limits.agents, Math.max(16, 2 ** Math.ceil(Math.log2(want))));
    const square = new Int32Array(width * width);
    for (let row = 0; row < this.width; row++) square.set(this.square.subarray(row * this.width, (row + 1) * this.width), row * width);
    this.width = width;
    this.square = square;
  }
}
