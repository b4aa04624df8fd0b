// The hops of the selected path, which are requested on demand.
import { useEffect, useState } from "preact/hooks";
import { sentence, topologyClient } from "../../data/client.ts";
import type { PathEntry, Topology } from "../../data/topology.ts";
import type { Node, Path } from "../../gen/topology_pb.ts";
import type { Choice } from "./choice.ts";

interface Detail {
  /** The selected path with its hops; undefined: not loaded. */
  path?: Path | undefined;
  nodes: readonly Node[];
  fault?: string | undefined;
}

interface Loaded {
  source: string;
  destination: string;
  paths: readonly Path[];
  nodes: readonly Node[];
}

const none: readonly Node[] = [];

/** Loads the paths of the selected pair, again with each answer, and finds the shown one. */
export function useHops({ source, destination, session }: Choice, answer: Topology, shown: PathEntry | undefined): Detail {
  const [loaded, setLoaded] = useState<Loaded>();
  const [fault, setFault] = useState<string>();
  const wanted = shown !== undefined;
  useEffect(() => {
    if (!wanted) return undefined;
    const abort = new AbortController();
    topologyClient.getTopology({ session, source, destination }, { signal: abort.signal }).then(({ paths, nodes }) => {
      setLoaded({ source, destination, paths, nodes });
      setFault(undefined);
    }).catch((e: unknown) => !abort.signal.aborted && setFault(sentence(e)));
    return () => abort.abort();
  }, [source, destination, session, answer, wanted]);
  if (!shown || loaded?.source !== source || loaded.destination !== destination) return { nodes: none, fault };
  const path = loaded.paths.find((p) => p.address === shown.address && p.protocol === shown.protocol);
  return { path, nodes: loaded.nodes, fault };
}
