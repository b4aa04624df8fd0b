// Time range, pause and live controls.
import type { PairFeed } from "../../data/pair.ts";
import { clock } from "../../data/quantity.ts";
import { refine } from "../../data/route.ts";
import { lengthOf, lengthWords, usual } from "../../data/span.ts";
import type { Clock } from "../../data/window.ts";
import { Icon } from "../../part/icon.tsx";
import { RangeChoice } from "../../part/range.tsx";
import { freeze, look, showSpan } from "./look.ts";

/** Controls select the time range and pause or resume it. */
export function Controls({ feed, last }: { feed: PairFeed; last: () => number | undefined }) {
  const { span } = look.value;
  const paused = feed.paused.value;
  const drawn = feed.drawn.value;
  const goLive = () => showSpan({ live: true, length: last() ?? lengthOf(usual) ?? 0 });
  return (
    <div class="pair-controls">
      {!span.live ? <button type="button" class="main" onClick={goLive}><Icon name="play" />Live</button>
        : paused === undefined ? <button type="button" onClick={() => freeze(drawn?.to ?? Date.now())}><Icon name="pause" />Pause</button>
        : <button type="button" class="main" onClick={() => freeze(undefined)}><Icon name="play" />Resume</button>}
      <RangeChoice span={span} seen={drawn} onSpan={showSpan} />
      <ClockSwitch />
      <span class="pair-pulse small" role="status"><Pulse feed={feed} /></span>
      <progress class={feed.busy.value ? "pair-busy" : "pair-busy idle"} aria-label="Loading" aria-hidden={!feed.busy.value} />
    </div>
  );
}

const clocks: { clock: Clock; word: string; help: string }[] = [
  { clock: "measured", word: "As measured", help: "Delays as measured: the offset between the clocks of the two hosts is part of them" },
  { clock: "corrected", word: "Corrected", help: "Delays without the offset between the two clocks, which the server estimates from the minimum delays of both directions" },
];

/** ClockSwitch selects delays as measured, or without the estimated clock offset. */
function ClockSwitch() {
  const shown = look.value.clock;
  return (
    <div class="pair-clocks">
      <span class="soft small" id="pair-clocks">Clocks</span>
      <div class="pair-switch" role="group" aria-labelledby="pair-clocks">
        {clocks.map(({ clock, word, help }) => (
          <button key={clock} type="button" aria-pressed={clock === shown} title={help} onClick={() => refine({ clock: clock === "measured" ? undefined : clock })}>{word}</button>
        ))}
      </div>
    </div>
  );
}

/** How current the charts are. */
function Pulse({ feed }: { feed: PairFeed }) {
  const { span } = look.value;
  const paused = feed.paused.value;
  const step = feed.drawn.value?.step ?? 0;
  const each = step > 0 ? `, one value per ${step === 1000 ? "second" : lengthWords(step)}` : "";
  const statuses = [feed.out.status.value, feed.back.status.value];
  const broken = statuses.find((h) => h.broken)?.broken;
  if (paused !== undefined) return <><b>Paused at {clock(paused)}.</b> Measurement continues.</>;
  if (!span.live) return <>Fixed range{each}</>;
  if (broken) return <b class="warning">Live values interrupted: {broken} Reconnecting.</b>;
  if (feed.bare.value) return <><i class="pair-dot idle" aria-hidden="true" />Live, no data yet</>;
  return <><i class="pair-dot" aria-hidden="true" />Live{each}</>;
}
