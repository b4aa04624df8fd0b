// What happens inside the routers between two hosts, on the time axis of the charts above.
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useMemo, useRef } from "preact/hooks";
import type { Line, Mark, Range } from "../../chart/plot.ts";
import { TimeChart } from "../../chart/time.tsx";
import { agents } from "../../data/agents.ts";
import { topologyClient } from "../../data/client.ts";
import { gridOf } from "../../data/columns.ts";
import type { Drawn } from "../../data/pair.ts";
import { duration, figures, share } from "../../data/quantity.ts";
import { resource, useResource } from "../../data/resource.ts";
import { queueColumns, queueSummaries, routersOf, stageColumns, stageShares, stages } from "../../data/router.ts";
import { millis } from "../../data/time.ts";
import type { Session } from "../../gen/session_pb.ts";
import type { CoffeeBreak, GetRouterDelaysResponse } from "../../gen/topology_pb.ts";
import { stageColours as colours, stageWords } from "../../part/stage.tsx";

/** All paths, whatever session the topology view has selected. */
const paths = resource(15_000, async (signal) => (await topologyClient.getTopology({}, { signal })).paths);

interface InsideProps {
  drawn: Drawn;
  live: boolean;
  source: string;
  destination: string;
  log: boolean;
  sessions: readonly Session[];
  /** Names of the pair's sessions, those with rows first. */
  measured: readonly string[];
  onRange: (range: Range) => void;
}

/** InsideRouters shows a chart for each router and direction that has rows; nothing where no router is profiled. */
export function InsideRouters(props: InsideProps) {
  const { source, destination, sessions } = props;
  const hosts = useResource(agents).value.value;
  const traced = useResource(paths).value.value;
  const passed = useMemo(() => routersOf({ source, destination }, sessions, hosts ?? [], traced ?? []), [source, destination, sessions, hosts, traced]);
  return (
    <>
      {passed.flatMap(({ agent, out, back }) => {
        // Without a path that shows the interfaces, both directions are one.
        if (out === undefined && back === undefined) return [<Profile key={agent} {...props} agent={agent} way={`${source} ⇄ ${destination}`} />];
        return [
          out !== undefined && <Profile key={`${agent} >`} {...props} agent={agent} way={`${source} → ${destination}`} input={out} output={back} />,
          back !== undefined && <Profile key={`${agent} <`} {...props} agent={agent} way={`${destination} → ${source}`} input={back} output={out} />,
        ];
      })}
    </>
  );
}

const refreshMs = 2000;

interface ProfileProps extends InsideProps {
  agent: string;
  /** Direction as text. */
  way: string;
  /** Interfaces of the direction, where known. */
  input?: string;
  output?: string;
}

/** The last answer for what is drawn; an old one stays until the next has come. */
function useDelays({ agent, input, output, drawn, live, measured }: ProfileProps): GetRouterDelaysResponse | undefined {
  const now = useRef(drawn);
  now.current = drawn;
  const last = useRef<GetRouterDelaysResponse | undefined>(undefined);
  const shown = live ? `${drawn.to - drawn.from}` : `${drawn.from} ${drawn.to}`;
  const delays = useMemo(() => resource(live ? Math.max(refreshMs, drawn.step) : 60_000, async (signal) => {
    const { from, to, step } = now.current;
    return (last.current = await topologyClient.getRouterDelays(
      { agent, sessions: [...measured], input, output, from: timestampFromMs(from), to: timestampFromMs(to), stepMs: BigInt(step) }, { signal }));
  }), [agent, input, output, measured.join(), drawn.step, live, shown]);
  return useResource(delays).value.value ?? last.current;
}

/** Coffee breaks, in which packets wait and the router processes none, as marks. */
const breakMarks = (breaks: readonly CoffeeBreak[]): Mark[] => breaks.map((b) => ({
  time: millis(b.time) ?? 0, level: "info",
  text: `coffee break of ${duration(Number(b.lengthNs))}: ${b.depth} packets waited${b.cause && b.cause !== "unknown" && b.cause !== "not_recorded" ? `, ${b.cause}` : ""}${b.task ? ` (${b.task})` : ""}`,
}));

/** One router in one direction. */
function Profile(props: ProfileProps) {
  const { agent, way, input, output, drawn, log, onRange } = props;
  const answer = useDelays(props);
  const step = Number(answer?.stepMs ?? 0);
  const times = useMemo(() => (answer ? gridOf(drawn.from, drawn.to, step) : []), [answer, drawn]);
  const columns = useMemo(() => stageColumns(answer?.stages ?? [], times, step), [answer, times]);
  const queues = useMemo(() => queueColumns(answer?.queues ?? [], times, step), [answer, times]);
  const marks = useMemo(() => breakMarks(answer?.breaks ?? []), [answer]);
  if (!answer || answer.stages.length === 0) return null;
  const lines = stages.flatMap((stage): Line[] => [
    { label: stageWords[stage], values: columns.get(stage)?.p50 ?? [], colour: colours[stage], width: 2 },
    { label: "p99", values: columns.get(stage)?.p99 ?? [], colour: colours[stage], dash: [4, 3] },
  ]);
  const shared = { times, range: { from: drawn.from, to: drawn.to }, marks, onRange, group: "pair" };
  const shares = [...stageShares(answer.stages)].map(([stage, part]) => `${share(part)} ${stageWords[stage]}`).join(", ");
  const through = [input, output].filter(Boolean).join(" to ");
  return (
    <section class="panel">
      <TimeChart {...shared} title={`Inside router ${agent}: ${way}`} lines={lines} format={duration} height={220} scale={log ? "log" : "zero"} />
      <div class="pair-under"><p class="small soft">
        {through ? `From ${through}. ` : "All forwarded packets. "}Median and 99th percentile of the time in each stage
        {answer.sampled > 1 ? `, sampled from one in ${answer.sampled} rows` : ""}{answer.session ? "" : "; from the router's own profile, not the session's"}.{shares && ` Of the time inside, ${shares}.`}
      </p></div>
      {queues.length > 0 && <TimeChart {...shared} title={`Queues of ${agent}: ${way}`} format={(v) => (Number.isNaN(v) ? "–" : `${figures(v)} pkt`)} atLeast={1} height={130}
        lines={queues.flatMap((q): Line[] => {
          const colour = colours[q.side === "input" ? "input_queuing" : "output_queuing"];
          return [{ label: `${q.side} ${q.interface}`, values: q.mean, colour, width: 2 }, { label: "reported by the kernel", values: q.kernel, colour, dash: [4, 3] }];
        })} />}
      {queueSummaries(answer.sizes).map((q) => (
        <div class="pair-under" key={`${q.side} ${q.interface}`}><p class="small soft">
          {q.side} {q.interface}: {share(q.waiting)} of departing packets left others waiting; length at departure up to {q.p99} packets in
          99 % of cases; more than one arrival in {share(q.bursts)} of the inter-departure times.
        </p></div>
      ))}
    </section>
  );
}
