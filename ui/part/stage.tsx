// The stages of a router: their words, their colours, and how a time inside is divided among them.
import { duration } from "../data/quantity.ts";
import { stages, type Stage } from "../data/router.ts";

export const stageWords: Record<Stage, string> = { input_queuing: "input queuing", processing: "processing", output_queuing: "output queuing" };
export const stageColours: Record<Stage, string> = { input_queuing: "--busy", processing: "--clock", output_queuing: "--heat-4" };

/** Mean times in stages, ns. */
export type StageTimes = Partial<Record<Stage, number>>;

/** StageBar divides the mean time inside a router among its stages, and names them. */
export function StageBar({ times }: { times: StageTimes }) {
  const known = stages.flatMap((stage) => (times[stage] === undefined ? [] : [{ stage, ns: Math.max(0, times[stage]) }]));
  const all = known.reduce((sum, { ns }) => sum + ns, 0);
  if (all === 0) return null;
  return (
    <span class="stage-bar">
      <span class="stage-line" aria-hidden="true">
        {known.map(({ stage, ns }) => <i key={stage} style={{ width: `${(100 * ns) / all}%`, background: `var(${stageColours[stage]})` }} />)}
      </span>
      <span class="stage-keys">
        {known.map(({ stage, ns }) => <span key={stage}><i aria-hidden="true" style={{ background: `var(${stageColours[stage]})` }} />{stageWords[stage]} {duration(ns)}</span>)}
      </span>
    </span>
  );
}
