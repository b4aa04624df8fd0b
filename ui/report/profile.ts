// What package study/routerreport writes into a report: the summary that `pillion-agent router --json` prints, its intervals, and the
// distributions that are only drawn. Null: not measured.

export type Measured = number | null;
export type Counts = Record<string, number> | null | undefined;

/** The time of packets in one stage, ns. */
export type Times = { count: number } & Record<"min" | "mean" | "p50" | "p90" | "p99" | "p999" | "max", Measured>;

export interface Pair extends Record<"packets" | "bytes" | "merged", number> {
  input: string;
  output: string;
  stages: Record<"input_queuing_ns" | "processing_ns" | "output_queuing_ns" | "transit_ns" | "hold_ns", Times>;
}

export interface Queue extends Record<"arrivals" | "departures" | "ended" | "max_depth" | "recent_max_depth" | "kernel_depth" | "kernel_max_depth" | "compared", number> {
  interface: string;
  side: "input" | "output";
  found_mean: Measured;
  kernel_found_mean: Measured;
  little: Record<"mean_depth" | "rate_per_second" | "mean_wait_ns" | "product" | "difference", Measured>;
}

export interface Break extends Record<"length_ns" | "cpu" | "depth" | "packets" | "softirq_ns" | "irq_ns" | "task_ns", number> {
  start: string;
  task: string;
  cause: string;
}

interface Breaks extends Record<"count" | "total_ns" | "unsent", number> {
  longest_ns: Measured;
  causes: Counts;
  length_ns: Times;
  p50_packets_between: Measured;
  longest?: Break[];
}

interface Cost extends Record<"hook_ns" | "packet_ns", Measured> {
  counted_s: number;
  processor_share: number;
  hooks: ({ program: string } & Record<"runs" | "run_ns" | "total_ns", number>)[];
}

interface Environment extends Record<"host" | "kernel" | "version" | "namespace" | "interval", string> {
  processors: number;
  causes: boolean;
  forwards_ipv4: boolean;
  forwards_ipv6: boolean;
  devices: ({ mtu: number; up: boolean } & Record<"name" | "kind" | "qdisc" | "offloads", string>)[] | null;
}

type Account = Record<"seen" | "no_arrival" | "forwarded" | "dropped" | "local" | "merged" | "in_flight" | "lost" | "unexplained" | "own" | "below" | "segments", number>;

export interface Summary extends Account {
  drop_reasons: Counts;
  lost_reasons: Counts;
  skipped: Counts;
  start: string;
  duration_s: number;
  pairs: Pair[];
  queues: Queue[];
  breaks: Breaks;
  cost: Cost | null;
  records?: Record<"written" | "lost", number>;
  environment: Environment;
}

export interface Interval {
  time: string;
  pairs: Pair[];
  queues: Queue[];
  breaks: number;
}

/** Lower bounds of buckets, ns, as in package measure/histogram, and how many values are in each. */
export type Buckets = Record<"bounds" | "counts", number[] | null>;

export interface Profile {
  summary: Summary;
  /** The selected packets. */
  scope: string;
  /** Why nothing was forwarded; empty: something was. */
  hint: string;
  intervals: Interval[];
  /** One in this many intervals is there. */
  stride: number;
  /** By pair, in the order of the summary: input queuing, processing, output queuing. */
  pairs: Buckets[][] | null;
  /** By queue: how often a departing packet found 0, 1, 2 and so on packets, and how often so many arrived between two departures. */
  queues: Record<"found" | "arrived", number[] | null>[] | null;
  breaks: { length: Buckets; between: number[] | null };
}
