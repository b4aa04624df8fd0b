// A path as it was at a time in the past, beside the present one.
import { useEffect, useState } from "preact/hooks";
import { sentence } from "../../data/client.ts";
import { moment } from "../../data/quantity.ts";
import { refine } from "../../data/route.ts";
import { agrees, aroundChange, compare, pastTraces, type Step, type Trace } from "../../data/trace.ts";
import type { Path } from "../../gen/topology_pb.ts";
import { Lines, type Naming } from "./hops.tsx";

export interface ThenProps {
  path: Path;
  /** Its hops now. */
  steps: Step[];
  /** ms since 1970. */
  at: number;
  naming: Naming;
}

/** Then shows the route at a time: what it was before the change, after it, and now. */
export function Then({ path, steps, at, naming }: ThenProps) {
  const [traces, setTraces] = useState<Trace[]>();
  const [fault, setFault] = useState<string>();
  useEffect(() => {
    const abort = new AbortController();
    pastTraces(path, at, abort.signal).then(setTraces, (e: unknown) => {
      if (!abort.signal.aborted) setFault(e instanceof Error && !("code" in e) ? e.message : sentence(e));
    });
    return () => abort.abort();
  }, [path.source, path.destination, path.address, path.protocol, at]);
  return (
    <section class="then" aria-labelledby="then-title">
      <header class="row spread">
        <h3 id="then-title">The path on {moment(at)}</h3>
        <button class="quiet" type="button" onClick={() => refine({ at: undefined })}>Close</button>
      </header>
      {fault ? <p class="bad-text" role="alert">{fault}</p> : <Routes path={path} steps={steps} traces={traces} naming={naming} />}
    </section>
  );
}

function Routes({ path, steps, traces, naming }: Omit<ThenProps, "at"> & { traces?: Trace[] }) {
  if (!traces) return <p class="soft" role="status">Looking for it…</p>;
  const name = (address: string): string => naming(address) ?? address;
  const { before, after } = aroundChange(traces, name);
  if (!after) return <p class="soft">No trace of this path from then is kept.</p>;
  const now = { steps, reached: path.reached };
  const still = agrees(after, now, name);
  const back = before && !still && agrees(before, now, name);
  return (
    <>
      {before && <Lines lines={compare(before.steps, after.steps, name)} was={`Before (${moment(before.time)})`} is={still ? "After, and now" : `After (${moment(after.time)})`} naming={naming} />}
      {!before && <p class="small soft">The traces just before show the same route.</p>}
      {still && !before && <Lines lines={compare(after.steps, steps, name)} was={`Then (${moment(after.time)})`} is="Now: the same" naming={naming} />}
      {!still && <Lines lines={compare(after.steps, steps, name)} was={before ? "After" : `Then (${moment(after.time)})`} is={back ? "Now: again as before" : "Now"} naming={naming} />}
    </>
  );
}
