// Figures of a pair beside its cell.
import type { Cursor } from "../../chart/matrix-paint.ts";
import { pairTable } from "../../data/pairs.ts";
import { Course } from "./course.tsx";
import type { Picture } from "./picture.ts";
import { pairFigures, stateWord } from "./state.ts";

/** PairCard shows the figures of the pair under the pointer. */
export function PairCard({ picture, at }: { picture: Picture; at: Cursor }) {
  const [source, destination] = [picture.rows[at.row] ?? "", picture.columns[at.column] ?? ""];
  const state = picture.state(at.row, at.column);
  if (state === "self") return <p><strong>{source}</strong> <span class="soft">to itself: not a pair</span></p>;
  return <PairFigures picture={picture} at={at} source={source} destination={destination} state={state} />;
}

function PairFigures({ picture, at, source, destination, state }: { picture: Picture; at: Cursor; source: string; destination: string; state: ReturnType<Picture["state"]> }) {
  const { rows, columns } = picture.chosen;
  const groups = rows.groups && columns.groups ? `${rows.groups[at.row] || "no label"} → ${columns.groups[at.column] || "no label"}` : "";
  const pair = picture.pair(at.row, at.column);
  const silent = state === "none" || state === "quiet" || pair < 0;
  return (
    <>
      <p class="card-name"><strong>{source} → {destination}</strong>{state !== "live" && <span class="soft"> {stateWord(state)}</span>}</p>
      {groups && <p class="small soft">{groups}</p>}
      {!silent && <Course pair={pair} measure={picture.measure} width={230} height={36} />}
      {!silent && (
        <dl class="figures">
          {pairFigures(pairTable, pair).map((f) => <div key={f.name}><dt>{f.name}</dt><dd>{f.text}</dd></div>)}
        </dl>
      )}
    </>
  );
}
