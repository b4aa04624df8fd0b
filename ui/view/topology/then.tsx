// A path at a time in the past beside the current one.
import { useEffect, useState } from "preact/hooks";
import { sentence } from "../../data/client.ts";
import { inPackets } from "../../data/one-way.ts";
import { moment } from "../../data/quantity.ts";
import { refine } from "../../data/route.ts";
import { millis } from "../../data/time.ts";
import { compare, pathChange } from "../../data/trace.ts";
import type { GetPathChangeResponse, Path } from "../../gen/topology_pb.ts";
import { Lines, type Naming } from "./hops.tsx";

interface ThenProps {
  path: Path;
  /** ms since 1970. */
  at: number;
  naming: Naming;
}

/** Then shows the route at a time: before the change, after it, and now. */
export function Then({ path, at, naming }: ThenProps) {
  const [change, setChange] = useState<GetPathChangeResponse>();
  const [fault, setFault] = useState<string>();
  const traced = !inPackets(path);
  useEffect(() => {
    if (!traced) return undefined;
    const abort = new AbortController();
    pathChange(path, at, abort.signal).then(setChange, (e: unknown) => !abort.signal.aborted && setFault(sentence(e)));
    return () => abort.abort();
  }, [path.source, path.destination, path.address, path.protocol, at]);
  return (
    <section class="then" aria-labelledby="then-title">
      <header class="row spread">
        <h3 id="then-title">The path on {moment(at)}</h3>
        <button class="quiet" type="button" onClick={() => refine({ at: undefined })}>Close</button>
      </header>
      {fault && <p class="bad-text" role="alert">{fault}</p>}
      {!traced && <p class="soft">The event above names the routes before and after. Times of that day are in the stream <code>hop_delays</code>.</p>}
      {traced && !fault && (change ? <Routes path={path} change={change} naming={naming} /> : <p class="soft" role="status">Loading…</p>)}
    </section>
  );
}

const timed = (word: string, path: Path): string => `${word} (${moment(millis(path.time) ?? 0)})`;

function Routes({ path, change: { before, after, current, reverted }, naming }: Omit<ThenProps, "at"> & { change: GetPathChangeResponse }) {
  if (!after) return <p class="soft">The archive has no trace of this path from that time.</p>;
  const lines = (was: Path, is: Path) => compare(was.hops, is.hops, (address) => naming(address)?.host ?? address);
  return (
    <>
      {before && <Lines lines={lines(before, after)} was={timed("Before", before)} is={current ? "After, and now" : timed("After", after)} naming={naming} />}
      {!before && <p class="small soft">The traces just before show the same route.</p>}
      {current && !before && <Lines lines={lines(after, path)} was={timed("Then", after)} is="Now: the same" naming={naming} />}
      {!current && <Lines lines={lines(after, path)} was={before ? "After" : timed("Then", after)} is={reverted ? "Now: as before the change" : "Now"} naming={naming} />}
    </>
  );
}
