// What routers on the way do, on the time of the charts above.
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Line, Mark, Range } from "../../chart/plot.ts";
import { TimeChart } from "../../chart/time.tsx";
import { agents } from "../../data/agents.ts";
import { topologyClient } from "../../data/client.ts";
import { gridOf } from "../../data/columns.ts";
import type { Drawn } from "../../data/pair.ts";
import { duration, figures } from "../../data/quantity.ts";
import { resource, useResource } from "../../data/resource.ts";
import { chosenSession, inside, queueColumns, routersOf, stageColumns, stages, type Break, type Inside, type Passed, type Stage } from "../../data/router.ts";
import type { Session } from "../../gen/session_pb.ts";

/** All paths, whatever session the topology shows. */
const paths = resource(15_000, async (signal) => (await topologyClient.getTopology({}, { signal })).paths);

export interface InsideProps {
  drawn: Drawn;
  live: boolean;
  source: string;
  destination: string;
  log: boolean;
  /** Sessions of the pair, by name those with rows first. */
  sessions: readonly Session[];
  measured: readonly string[];
  onRange: (range: Range) => void;
}

/** InsideRouters shows a chart for each router and direction that has rows; nothing where no router is profiled. */
export function InsideRouters(props: InsideProps) {
  const { source, destination, sessions } = props;
  const hosts = useResource(agents).value.value;
  const traced = useResource(paths).value.value;
  const passed = useMemo(() => routersOf({ source, destination }, sessions, hosts ?? [], traced ?? []), [source, destination, sessions, hosts, traced]);
  return passed.length > 0 ? <Profiles {...props} passed={passed} /> : null;
}

const few = 2000; // ms between two questions

function useInside({ drawn, live, measured, passed }: InsideProps & { passed: Passed[] }): Inside | undefined {
  const seen = useRef(drawn);
  seen.current = drawn;
  const names = passed.map((p) => p.agent).join();
  const moved = live ? `${drawn.to - drawn.from}` : `${drawn.from} ${drawn.to}`;
  const asked = useMemo(() => resource(live ? Math.max(few, drawn.step) : 60_000, (signal) => {
    const { from, to, step } = seen.current;
    return inside({ agents: names.split(","), sessions: measured, from, to, step }, signal);
  }), [names, measured.join(), drawn.step, live, moved]);
  const answer = useResource(asked).value.value;
  const last = useRef<Inside | undefined>(undefined);
  useEffect(() => {
    if (answer) last.current = answer;
  }, [answer]);
  return answer ?? last.current;
}

function Profiles(props: InsideProps & { passed: Passed[] }) {
  const { drawn, passed, source, destination } = props;
  const answer = useInside(props);
  const times = useMemo(() => (answer ? gridOf(drawn.from, drawn.to, answer.step) : []), [answer, drawn]);
  if (!answer) return null;
  return (
    <>
      {passed.flatMap((router) => {
        const shared = { ...props, router, answer, times };
        // Where no path tells by which interface a direction comes in, both are one.
        if (router.out === undefined && router.back === undefined) return [<Profile key={router.agent} {...shared} ways={[`${source} ⇄ ${destination}`, undefined, undefined]} />];
        return [
          router.out !== undefined && <Profile key={`${router.agent} >`} {...shared} ways={[`${source} → ${destination}`, router.out, router.back]} />,
          router.back !== undefined && <Profile key={`${router.agent} <`} {...shared} ways={[`${destination} → ${source}`, router.back, router.out]} />,
        ];
      })}
    </>
  );
}

const words: Record<Stage, string> = { input_queuing: "input queuing", processing: "processing", output_queuing: "output queuing" };
const colours: Record<Stage, string> = { input_queuing: "--busy", processing: "--clock", output_queuing: "--heat-4" };

/** Coffee breaks as marks. */
export function breakMarks(breaks: readonly Break[]): Mark[] {
  return breaks.map((b) => ({
    time: b.time, level: "info",
    text: `coffee break of ${duration(b.length)}: ${b.depth} packets waited${b.cause && b.cause !== "unknown" ? `, ${b.cause}` : ""}${b.task ? ` (${b.task})` : ""}`,
  }));
}

interface ProfileProps extends InsideProps {
  router: Passed;
  answer: Inside;
  times: number[];
  /** Direction in words, and its interfaces, where they are known. */
  ways: [string, string | undefined, string | undefined];
}

/** One router, in one direction. */
function Profile({ router, answer, times, ways: [way, input, output], drawn, measured, log, onRange }: ProfileProps) {
  const session = chosenSession(answer.waited, router.agent, measured);
  const mine = <T extends { agent: string; session: string }>(rows: readonly T[]): T[] => rows.filter((r) => r.agent === router.agent && r.session === session);
  const waited = mine(answer.waited).filter((r) => (input === undefined || r.input === input) && (output === undefined || r.output === output));
  const columns = useMemo(() => stageColumns(waited, times, answer.step), [answer, times, session, input, output]);
  const queues = useMemo(() => queueColumns(mine(answer.queued).filter((q) => {
    const name = q.side === "input" ? input : output;
    return name === undefined || q.interface === name;
  }), times, answer.step), [answer, times, session, input, output]);
  const marks = useMemo(() => breakMarks(mine(answer.breaks)), [answer, session]);
  if (waited.length === 0) return null;
  const lines = stages.flatMap((stage): Line[] => [
    { label: words[stage], values: columns[stage].p50, colour: colours[stage], width: 2 },
    { label: "p99", values: columns[stage].p99, colour: colours[stage], dash: [4, 3] },
  ]);
  const shared = { times, range: { from: drawn.from, to: drawn.to }, marks, onRange, group: "pair" };
  const through = [input, output].filter(Boolean).join(" to ");
  return (
    <section class="panel">
      <TimeChart {...shared} title={`Inside router ${router.agent}: ${way}`} lines={lines} format={duration} height={220} scale={log ? "log" : "zero"} />
      <div class="pair-under"><p class="small soft">
        {through ? `From ${through}. ` : "All packets that it forwards. "}Median and 99th percentile of the time in each stage
        {answer.sampled > 1 ? `, of one in ${answer.sampled} rows` : ""}{session ? "" : "; of its own profile, not the session's"}.
      </p></div>
      {queues.length > 0 && <TimeChart {...shared} title={`Queues of ${router.agent}: ${way}`} format={(v) => (Number.isNaN(v) ? "–" : `${figures(v)} pkt`)} atLeast={1} height={130}
        lines={queues.flatMap((q): Line[] => [
          { label: `${q.side} ${q.interface}`, values: q.mean, colour: colours[q.side === "input" ? "input_queuing" : "output_queuing"], width: 2 },
          { label: "by the kernel", values: q.kernel, colour: colours[q.side === "input" ? "input_queuing" : "output_queuing"], dash: [4, 3] },
        ])} />}
    </section>
  );
}
