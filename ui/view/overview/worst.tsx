// The worst pairs.
import type { Measure } from "../../data/pair-table.ts";
import { pairTable } from "../../data/pairs.ts";
import { href } from "../../data/route.ts";
import { Course } from "./course.tsx";
import type { Picture } from "./picture.ts";
import { figureText, stateOf, worst } from "./state.ts";

const most = 5;

/** WorstPairs lists the pairs of the matrix with the highest loss and delay. */
export function WorstPairs({ picture, only }: { picture: Picture; only: string }) {
  const now = performance.now();
  const [sources, destinations] = [new Set(picture.rows), new Set(picture.columns)];
  const wanted = (pair: number) => {
    const [source, destination] = ends(pair);
    return sources.has(source) && destinations.has(destination) && stateOf(pairTable.age(pair, now), undefined) !== "none";
  };
  return (
    <aside class="worst" aria-label="Worst pairs">
      <Top title="Highest loss" note="last 10 s" measure="loss" wanted={wanted} only={only} none="No pair loses packets." />
      <Top title="Highest p99 delay" note="last second" measure="p99" wanted={wanted} only={only} none="No delays measured now." />
    </aside>
  );
}

const ends = (pair: number): [string, string] => [pairTable.agents[pairTable.source[pair] ?? -1] ?? "", pairTable.agents[pairTable.destination[pair] ?? -1] ?? ""];

function Top({ title, note, measure, wanted, only, none }: { title: string; note: string; measure: Measure; wanted: (pair: number) => boolean; only: string; none: string }) {
  const top = worst(pairTable, measure, wanted, most);
  return (
    <div>
      <h3>{title} <span class="soft small">{note}</span></h3>
      {top.length === 0 ? <p class="soft small">{none}</p> : (
        <ol>
          {top.map(({ pair, value }) => {
            const [source, destination] = ends(pair);
            return (
              <li key={`${source}\n${destination}`}>
                <a href={href(["pair", source, destination], { session: only })}>{source} → {destination}</a>
                <Course pair={pair} measure={measure} width={64} height={20} />
                <span class="number">{figureText(measure, value)}</span>
              </li>
            );
          })}
        </ol>
      )}
    </div>
  );
}
