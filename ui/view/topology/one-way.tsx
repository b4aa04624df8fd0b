// Hops of a path with one-way delays, and what happens inside its routers.
import { clockError, oneWaySentence, spansOf, stageTimes, stampError, transitOf } from "../../data/one-way.ts";
import { count, duration } from "../../data/quantity.ts";
import type { Hop, OneWay, Path } from "../../gen/topology_pb.ts";
import { StageBar } from "../../part/stage.tsx";
import type { Figure } from "./grade.ts";

/** The name of a node of a path. */
export type NodeNaming = (id: string) => { name: string; agent: boolean };

interface OneWaysProps {
  path: Path;
  nodes: NodeNaming;
  /** Losses of the links to the hops; undefined: they are not shown. */
  losses?: (Figure | undefined)[];
}

/** OneWays lists the hops of a path that routers wrote into packets. */
export function OneWays({ path, nodes, losses }: OneWaysProps) {
  const { hops } = path;
  const spans = spansOf(hops);
  const columns = losses ? 5 : 4;
  return (
    <>
      <div class="scroll-x" tabIndex={0} role="group" aria-label="Hops of the path">
        <table class="hops one-ways">
          <caption class="hidden-text">One-way delay of each hop, measured in packets</caption>
          <thead><tr><th class="number">Hop</th><th>To node</th><th class="number">One-way delay</th><th class="number">99 %</th>{losses && <th class="number">Link loss</th>}</tr></thead>
          <tbody>
            {hops.flatMap((h, i) => [
              <tr key={h.ttl} class={profiled(h) ? "with-inside" : undefined}>
                <td class="number">{h.ttl}</td>
                <td><Node id={path.nodes[i + 1] ?? ""} nodes={nodes} />{h.skipped > 0 && <span class="small soft hop-note">behind {h.skipped === 1 ? "1 router" : `${h.skipped} routers`} without a time stamp</span>}</td>
                <Delay delay={h.oneWay} span={spans[i]} />
                {losses && <td class="number" title={losses[i]?.long}>{losses[i]?.value === undefined ? "–" : losses[i].text}</td>}
              </tr>,
              profiled(h) && <InsideRow key={`${h.ttl} inside`} hop={h} columns={columns} />,
            ])}
          </tbody>
          <tfoot><tr><td /><th scope="row">End to end</th><Delay delay={path.oneWay} />{losses && <td />}</tr></tfoot>
        </table>
      </div>
      <Notes path={path} />
    </>
  );
}

function Node({ id, nodes }: { id: string; nodes: NodeNaming }) {
  const { name, agent } = nodes(id);
  return agent ? <strong>{name}</strong> : <code>{name}</code>;
}

function Delay({ delay, span }: { delay?: OneWay; span?: { from: number; length: number } }) {
  if (!delay || delay.packets === 0n) {
    return <><td class="number faint" title="The node wrote no time: its delay is part of the next hop.">no time stamp</td><td class="number">–</td></>;
  }
  const clocks = clockError(delay);
  return (
    <>
      <td class="number" title={oneWaySentence(delay)}>
        {duration(Number(delay.p50Ns))}
        <span class="small faint hop-error">{stampError(delay)}{clocks && <>, {clocks}</>}</span>
        {span && <span class="hop-span" aria-hidden="true"><i style={{ left: `${100 * span.from}%`, width: `${100 * span.length}%` }} /></span>}
      </td>
      <td class="number">{duration(Number(delay.p99Ns))}</td>
    </>
  );
}

/** Whether anything is said of the router at the end of a hop. */
export const profiled = (hop: Hop): boolean => hop.stages.length > 0 || hop.stagesUnknown;

/** InsideRow is the row below a hop with the way through the router at its end. */
export function InsideRow({ hop, columns }: { hop: Hop; columns: number }) {
  return <tr class="inside"><td /><td colSpan={columns - 1}><Inside hop={hop} /></td></tr>;
}

function Inside({ hop }: { hop: Hop }) {
  if (hop.stagesUnknown) {
    return <div class="hop-inside small soft">Profiled, but no traceroute shows by which interfaces this path passes the router.</div>;
  }
  const transit = transitOf(hop);
  return (
    <div class="hop-inside">
      <span class="small">
        <strong>Inside the router</strong> {transit !== undefined && <>{duration(transit)} on average, </>}
        <span class="soft">{hop.input} to {hop.output}</span>
      </span>
      <StageBar times={stageTimes(hop)} />
    </div>
  );
}

const some = (n: bigint): string => (n === 1n ? "1 packet" : `${count(n)} packets`);

function Notes({ path }: { path: Path }) {
  const unknown = path.hops.some((h) => h.oneWay && !h.oneWay.clockKnown);
  return (
    <>
      {path.otherPackets > 0n && <p class="small soft">{some(path.otherPackets)} of the last interval took another path.</p>}
      {path.overflowed > 0n && <p class="small soft">The trace of {some(path.overflowed)} had no room for further routers: the last hop covers those.</p>}
      <p class="small faint">
        Medians of real packets, from the times that routers wrote into them, in whole microseconds.
        {unknown && " A hop between two clocks is wrong by their difference, which is unknown where a router has no agent; the sum of all hops is not affected."}
      </p>
    </>
  );
}
