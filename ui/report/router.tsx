// The report of a router profile as a document.
import type { ComponentChildren } from "preact";
import { count, duration, moment, rate, share } from "../data/quantity.ts";
import { breakFigures, depthFigures, Key, PairFigures, sizeFigures, stages, three, time } from "./figures.tsx";
import type { Break, Counts, Pair, Profile, Queue, Summary, Times } from "./profile.ts";

/** Pairs that have charts. */
const charted = 8;

const part = (some: number, whole: number) => share(whole ? some / whole : undefined);
const pairName = (p: Pair) => (p.input ? `${p.input} > ${p.output}` : "other pairs");
const queueName = (q: Queue) => `${q.interface || "others"} ${q.side}`;
const perSecond = (n: number, { duration_s }: Summary) => count(Math.round(duration_s ? n / duration_s : 0));
const length = (s: number) => (s < 60 ? `${s.toFixed(1)} s` : duration(s * 1e9));
const ranked = (counts: Counts) => Object.entries(counts ?? {}).filter(([, n]) => n > 0).sort(([, a], [, b]) => b - a);

interface TableProps {
  head?: readonly string[];
  rows: readonly (readonly ComponentChildren[])[];
  caption?: string;
  /** Columns of text; the others but the first are numbers. */
  text?: readonly number[];
  /** Class of a row. */
  kind?: (row: number) => string | undefined;
}

function Table({ head, rows, caption, text = [], kind }: TableProps) {
  const style = (i: number) => (text.includes(i) ? "text" : undefined);
  return (
    <div class="scroll">
      <table class={caption ? "narrow" : undefined}>
        {caption && <caption>{caption}</caption>}
        {head && <thead><tr>{head.map((title, i) => <th key={i} scope="col" class={style(i)}>{title}</th>)}</tr></thead>}
        <tbody>
          {rows.map(([name, ...cells], row) => (
            <tr key={row} class={kind?.(row)}><th scope="row">{name}</th>{cells.map((c, i) => <td key={i} class={style(i + 1)}>{c}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Report draws a profile. */
export function Report({ profile }: { profile: Profile }) {
  const { summary: s, intervals } = profile;
  const pairs = s.pairs.map((p, i) => ({ ...p, name: pairName(p), buckets: profile.pairs?.[i] ?? [] })).filter((p) => p.stages.transit_ns.count > 0).sort((a, b) => b.bytes - a.bytes);
  const [first, more] = [pairs.slice(0, charted), pairs.slice(charted)];
  return (
    <>
      <Head profile={profile} busiest={pairs[0]} />
      {first.length > 0 && <Split pairs={first} />}
      {first.map((p, i) => (
        <section key={i}>
          <h2>{p.name}</h2>
          <p class="note">
            {count(p.packets)} packets, {perSecond(p.packets, s)} packets/s, {rate(s.duration_s ? (8 * p.bytes) / s.duration_s : NaN)}
            {p.merged > 0 && `; GRO merged ${count(p.merged)} further segments into these packets`}
          </p>
          <Table head={["stage", "packets", "min", "mean", "median", "90 %", "99 %", "99.9 %", "max"]} rows={stageRows(p)} />
          <PairFigures pair={p} buckets={p.buckets} start={s.start} points={intervals.map(({ time, pairs }) => ({ time, pair: pairs.find((other) => pairName(other) === p.name) }))} />
        </section>
      ))}
      {more.length > 0 && (
        <section>
          <h2>Other pairs</h2>
          <Table
            head={["from > to", "packets", ...stages.map(({ name }) => `${name}, median`), "transit, 99th percentile"]}
            rows={more.map((p) => [p.name, count(p.packets), ...stages.map(({ key }) => time(p.stages[key].p50)), time(p.stages.transit_ns.p99)])}
          />
        </section>
      )}
      {s.queues.length > 0 && <Queues profile={profile} />}
      <Breaks profile={profile} />
      <Account summary={s} />
      <Cost summary={s} />
      <Method profile={profile} />
    </>
  );
}

function stageRows({ stages: all }: Pair): ComponentChildren[][] {
  const row = (name: string, t: Times) => [name, count(t.count), ...[t.min, t.mean, t.p50, t.p90, t.p99, t.p999, t.max].map(time)];
  const rows = [...stages.map(({ key, name }) => row(name, all[key])), row("transit (sum)", all.transit_ns)];
  return all.hold_ns.count > 0 ? [...rows, row("incl. GRO hold", all.hold_ns)] : rows;
}

function Head({ profile: { summary: s, scope, hint }, busiest }: { profile: Profile; busiest: Pair | undefined }) {
  const router = `Router profile${s.environment.namespace && ` of ${s.environment.namespace}`}`;
  const facts: [name: string, value: ComponentChildren, more: string][] = [["forwarded", count(s.forwarded), `${perSecond(s.forwarded, s)} packets/s, ${part(s.forwarded, s.seen)} of all seen`]];
  if (busiest) {
    const { p50, p99, max } = busiest.stages.transit_ns;
    facts.push(["transit, median", time(p50), pairName(busiest)], ["transit, 99th percentile", time(p99), `max ${time(max)}`]);
  }
  facts.push(
    ["dropped", count(s.dropped), `${part(s.dropped, s.seen)} of all seen`],
    ["coffee breaks", count(s.breaks.count), s.breaks.count ? `longest ${time(s.breaks.longest_ns)}` : "none detected"],
    ["unexplained packets", s.unexplained ? <span class="badly">{s.unexplained}</span> : 0, `${count(s.lost)} lost by the profiler`],
  );
  return (
    <header>
      <h1>{router}</h1>
      <p class="where">{moment(Date.parse(s.start))} on {s.environment.host}, Linux {s.environment.kernel}; {length(s.duration_s)}; packets {scope}</p>
      <p class="answer">{busiest ? answer(busiest) : "No packet was forwarded."}</p>
      {hint && <p class="hint">{hint}</p>}
      <dl class="key">{facts.map(([name, value, more]) => <div key={name}><dt>{name}</dt><dd>{value} <small>{more}</small></dd></div>)}</dl>
    </header>
  );
}

/** The result in one sentence. */
function answer({ input, output, stages: all }: Pair): string {
  const longest = [...stages].sort((a, b) => (all[b.key].mean ?? 0) - (all[a.key].mean ?? 0))[0];
  const some = longest ? (all[longest.key].mean ?? 0) / Math.max(all.transit_ns.mean ?? 0, 1) : 0;
  return `From ${input} to ${output}, half of the packets took up to ${time(all.transit_ns.p50)} and 99 % up to ${time(all.transit_ns.p99)}; ` +
    `on average ${some > 0.99 ? "nearly all" : `${Math.round(100 * some)} %`} of that time was ${longest?.name}.`;
}

function Split({ pairs }: { pairs: readonly (Pair & { name: string })[] }) {
  return (
    <section>
      <h2>Delay by stage</h2>
      <p class="note">Mean time of a packet in the router. The three stages add up exactly.</p>
      <div class="split">
        {pairs.map(({ name, stages: all }) => {
          const total = all.transit_ns.mean ?? 0;
          const texts = stages.map((s) => `${s.name} ${time(all[s.key].mean)}`);
          return [
            <b>{name}</b>,
            <div class="bar" role="img" aria-label={`${texts.join(", ")}, total ${time(total)}`}>
              {stages.map((s, i) => <i key={s.key} class={s.style} style={{ width: `${(100 * (all[s.key].mean ?? 0)) / Math.max(total, 1)}%` }} title={texts[i]} />)}
            </div>,
            <span>{time(total)}</span>,
          ];
        })}
      </div>
      <Key of={stages.map((s) => ({ shape: "swatch", style: s.style, name: `${s.name}, ${s.times}` }))} />
    </section>
  );
}

function Queues({ profile }: { profile: Profile }) {
  const { queues } = profile.summary;
  const sizes = sizeFigures(queues.map((q, i) => ({ ...q, name: queueName(q), ...(profile.queues?.[i] ?? { found: null, arrived: null }) })));
  const depths = depthFigures(queues.map(queueName), profile.summary.start, profile.intervals.map(({ time, queues }) => ({ time, queues: new Map(queues.map((q) => [queueName(q), q])) })));
  const kernel = (q: Queue, value: string) => (q.compared ? value : "–");
  return (
    <section>
      <h2>Queues</h2>
      <p class="note">Packets between t1 and t2 (input) and between t3 and t4 (output), including packets that do not queue. The kernel's figures, shown for comparison where available, count differently: for an input, the backlog of the CPU, which all interfaces share; for an output, its queueing discipline. Both means of this comparison are the lengths at the departure of each packet, including that packet.</p>
      <Table
        head={["queue", "arrivals", "departures", "of these not passed on", "maximum", "kernel, maximum", "mean at departure", "kernel, mean"]}
        rows={queues.map((q) => [queueName(q), count(q.arrivals), count(q.departures), count(q.ended), count(q.max_depth), kernel(q, count(q.kernel_max_depth)), kernel(q, three(q.found_mean)), kernel(q, three(q.kernel_found_mean))])}
      />
      <h3>Little's law</h3>
      <p class="note">The mean length of a queue over time equals the departure rate times the mean wait. The length comes from counting arrivals and departures, the wait from the two timestamps of each packet: if they differ, packets were not seen at both ends.</p>
      <Table
        head={["queue", "mean length, packets", "rate × wait, packets", "difference", "rate, packets/s", "mean wait"]}
        rows={queues.map((q) => [queueName(q), three(q.little.mean_depth), three(q.little.product), three(q.little.difference), three(q.little.rate_per_second), time(q.little.mean_wait_ns)])}
      />
      {sizes.length > 0 && <><h3>Queue length distribution</h3><div class="two">{sizes}</div></>}
      {depths.length > 0 && (
        <>
          <h3>Queue length over time</h3>
          <Key of={[["any", "mean of the interval"], ["largest", "maximum of the interval"], ["kernel", "kernel, at the end of the interval"]].map(([style = "", name = ""]) => ({ shape: "line", style, name }))} />
          <div class="two">{depths}</div>
        </>
      )}
    </section>
  );
}

function Breaks({ profile }: { profile: Profile }) {
  const { breaks: b, environment } = profile.summary;
  if (!b.count) {
    return <section><h2>Coffee breaks</h2><p class="note">None detected. A coffee break, a term from the literature on router delays, is a processing stall: packets wait while their CPU neither starts nor finishes a packet.</p></section>;
  }
  const causes = ranked(b.causes);
  return (
    <section>
      <h2>Coffee breaks</h2>
      <p class="note">
        A coffee break, a term from the literature on router delays, is a processing stall: packets wait at an input, none waits at an output, and their CPU neither starts nor finishes a packet. Count: {count(b.count)}, {time(b.total_ns)} in total, the longest {time(b.longest_ns)}; median number of packets between two breaks: {three(b.p50_packets_between)}
        {b.unsent > 0 && `; ${count(b.unsent)} were counted but not recorded individually`}.
      </p>
      {!environment.causes && <p class="note">The causes of the breaks were not recorded (--no-causes).</p>}
      {environment.causes && causes.length > 0 && <Table caption="Activity of the CPU during the breaks, as observed by tracepoints" head={["cause", "breaks", "share"]} rows={causes.map(([name, n]) => [name, count(n), part(n, b.count)])} />}
      <div class="three">{breakFigures(profile)}</div>
      {b.longest && b.longest.length > 0 && (
        <>
          <h3>The longest</h3>
          <Table
            head={["start", "length", "CPU", "packets waiting at its end", "packets since the previous break", "cause", "CPU activity"]} text={[5, 6]}
            rows={b.longest.map((one) => [moment(Date.parse(one.start)), time(one.length_ns), one.cpu, count(one.depth), count(one.packets), one.cause, activity(one)])}
          />
        </>
      )}
    </section>
  );
}

/** What a CPU is known to have done in a break. */
const activity = (b: Break): string =>
  ([[`process ${b.task}`, b.task_ns], ["other softirqs", b.softirq_ns], ["interrupts", b.irq_ns]] as const).filter(([, ns]) => ns > 0).map(([name, ns]) => `${name} ${time(ns)}`).join(", ");

function Account({ summary: s }: { summary: Summary }) {
  const lines: [sign: string, name: string, count: number, meaning: string, parts?: Counts][] = [
    ["", "seen", s.seen, "received on an interface of this router and matched the filter", { "no arrival observed": s.no_arrival }],
    ["=", "forwarded", s.forwarded, "passed to the driver of an output"],
    ["+", "dropped", s.dropped, "dropped by the kernel, with its drop reason and the function", s.drop_reasons],
    ["+", "local", s.local, "delivered to the router itself"],
    ["+", "merged", s.merged, "segments merged into another packet by GRO"],
    ["+", "in flight", s.in_flight, "still inside the router when the profile ended"],
    ["+", "lost by the profiler", s.lost, "fate unknown, with the reason", s.lost_reasons],
    ["+", "unexplained", s.unexplained, "remainder: 0 if all packets are accounted for"],
  ];
  const rows = lines.flatMap(([sign, name, n, meaning, parts]) => [
    { kind: name === "seen" ? "total" : name === "unexplained" && n ? "bad" : undefined, cells: [<><span class="sign">{sign}</span>{name}</>, count(n), part(Math.abs(n), s.seen), meaning] },
    ...ranked(parts).map(([reason, k]) => ({ kind: "part", cells: [reason, count(k), part(k, s.seen), ""] })),
  ]);
  const beside = ([
    ["locally generated, including ICMP errors", s.own],
    ["forwarded below IP, by a bridge or a redirection", s.below],
    ["GSO segments of forwarded packets at outputs", s.segments],
    ...ranked(s.skipped).map(([name, n]) => [`not counted: ${name}`, n] as const),
  ] as const).filter(([, n]) => n > 0);
  return (
    <section>
      <h2>Packet accounting</h2>
      <Table head={["packets", "count", "share", "meaning"]} text={[3]} rows={rows.map((r) => r.cells)} kind={(i) => rows[i]?.kind} />
      {beside.length > 0 && <Table caption="Not included" rows={beside.map(([name, n]) => [name, count(n)])} />}
      {s.records && <p class="note">Records: {count(s.records.written)} packets written, {count(s.records.lost)} lost because the ring buffer was full.</p>}
    </section>
  );
}

function Cost({ summary: { cost } }: { summary: Summary }) {
  if (!cost) return <section><h2>Profiling overhead</h2><p class="note">Not measured (<code>--no-costs</code>).</p></section>;
  return (
    <section>
      <h2>Profiling overhead</h2>
      <p class="note">{time(cost.hook_ns)} per hook run, {(100 * cost.processor_share).toFixed(2)} % of one CPU, measured by the kernel during {length(cost.counted_s)} of the profile, because the measurement itself delays each packet by some tenths of a microsecond. Hooks also run for other network namespaces; their total time divided by the packets that reached IP processing in this router is {time(cost.packet_ns)} per packet.</p>
      <Table head={["program", "runs", "per run", "total"]} rows={cost.hooks.map((h) => [<code>{h.program}</code>, count(h.runs), time(h.run_ns), time(h.total_ns)])} />
    </section>
  );
}

function Method({ profile: { summary: s, scope, stride } }: { profile: Profile }) {
  const e = s.environment;
  const on = (is: boolean) => (is ? "on" : "off");
  return (
    <section>
      <h2>Method and environment</h2>
      <Table
        text={[1]}
        rows={[
          ["time", `${moment(Date.parse(s.start))}, for ${length(s.duration_s)}, in intervals of ${e.interval}${stride > 1 ? `; charts over time show one interval in ${stride}` : ""}`],
          ["host", `${e.host}, Linux ${e.kernel}, ${e.processors} CPUs`],
          ["router", `${e.namespace ? `network namespace ${e.namespace}` : "the network namespace of the program"}; IPv4 forwarding: ${on(e.forwards_ipv4)}, IPv6 forwarding: ${on(e.forwards_ipv6)}`],
          ["packets", scope],
          ["program", `Pillion ${e.version}`],
        ]}
      />
      <Table head={["interface", "kind", "MTU, bytes", "qdisc", "offloads", "state"]} text={[1, 3, 4, 5]} rows={(e.devices ?? []).map((d) => [d.name, d.kind, d.mtu, d.qdisc, d.offloads, d.up ? "up" : "down"])} />
      <p class="note">t1: the packet enters the network stack. t2: IP processing starts (netfilter, start of PRE_ROUTING). t3: IP processing ends (end of POST_ROUTING). t4: the packet is passed to the driver of the output. All timestamps use CLOCK_MONOTONIC. Time in the network card, before t1 and after t4, is not measured. Count, minimum, mean and maximum are exact; quantiles are exact below 64 ns and within 3.2 % above. The time that merged packets wait for others in GRO (hold) is part of input queuing, from the first segment on.</p>
    </section>
  );
}
