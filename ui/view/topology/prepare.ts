// The graph of an answer, computed in several tasks: with tens of thousands of paths one would block the page.
import { useEffect, useState } from "preact/hooks";
import { nextTask } from "../../data/task.ts";
import { graphOf, type Family, type Graph, type Topology } from "../../data/topology.ts";
import { shownFamily, type Choice } from "./choice.ts";
import { grouped, type Grouped } from "./picture.ts";

/** An answer with what is drawn of it. */
export interface Prepared {
  answer: Topology;
  family: Family;
  graph: Graph;
  whole: Grouped;
}

/** Prepares the graph of an answer; until it is ready, the last one stays. */
export function usePrepared(answer: Topology | undefined, choice: Choice, open: ReadonlySet<string>): Prepared | undefined {
  const [prepared, setPrepared] = useState<Prepared>();
  const family = answer && shownFamily(choice, answer.paths);
  useEffect(() => {
    if (!answer || !family) return undefined;
    let current = true;
    void (async () => {
      const graph = prepared?.answer === answer && prepared.family === family ? prepared.graph : graphOf(answer, family);
      await nextTask();
      if (!current) return;
      const whole = grouped(graph, open);
      await nextTask();
      if (current) setPrepared({ answer, family, graph, whole });
    })();
    return () => void (current = false);
  }, [answer, family, open]);
  return prepared;
}
