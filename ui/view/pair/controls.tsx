// Which time is shown, and whether it moves.
import type { PairFeed } from "../../data/pair.ts";
import { clock } from "../../data/quantity.ts";
import { lengthOf, lengthWords, usual } from "../../data/span.ts";
import { Icon } from "../../part/icon.tsx";
import { RangeChoice } from "../../part/range.tsx";
import { freeze, look, showSpan } from "./look.ts";

/** Controls choose the time, stop it and let it go on. */
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
      <span class="pair-pulse small" role="status"><Pulse feed={feed} /></span>
      <progress class={feed.busy.value ? "pair-busy" : "pair-busy idle"} aria-label="Asking the server" aria-hidden={!feed.busy.value} />
    </div>
  );
}

/** One phrase about how current the picture is. */
function Pulse({ feed }: { feed: PairFeed }) {
  const { span } = look.value;
  const paused = feed.paused.value;
  const step = feed.drawn.value?.step ?? 0;
  const each = step > 0 ? `, a value every ${step === 1000 ? "second" : lengthWords(step)}` : "";
  const heard = [feed.out.heard.value, feed.back.heard.value];
  const broken = heard.find((h) => h.broken)?.broken;
  if (paused !== undefined) return <><b>Paused since {clock(paused)}.</b> Measuring goes on, and what comes is kept.</>;
  if (!span.live) return <>Fixed time{each}</>;
  if (broken) return <b class="warning">Live values stopped: {broken} Connecting again.</b>;
  if (feed.bare.value) return <><i class="pair-dot idle" aria-hidden="true" />Live, nothing has come yet</>;
  return <><i class="pair-dot" aria-hidden="true" />Live{each}</>;
}
