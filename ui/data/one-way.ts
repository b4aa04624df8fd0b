// One-way delays of hops, measured in packets: their words, and what is known of their error.
import type { Hop, OneWay, Path } from "../gen/topology_pb.ts";
import { count, duration } from "./quantity.ts";
import { stages, type Stage } from "./router.ts";

/** A path that routers wrote into packets (IOAM), with one-way delays; others are traceroutes, with round-trip times. */
export const inPackets = (path: Pick<Path, "kind">): boolean => path.kind === "ioam";

/** How a path was measured, in words. */
export const methodOf = (path: Pick<Path, "kind" | "protocol">): string => (inPackets(path) ? "in packets (IOAM)" : `traceroute, ${path.protocol}`);

/** The error bound due to the resolution of time stamps. */
export const stampError = (d: OneWay): string => `± ${duration(Number(d.uncertaintyNs))}`;

/** What the clocks of both ends add to it; empty: nothing, they are the same. */
export function clockError(d: OneWay): string {
  if (!d.clockKnown) return "clock unknown";
  return d.clockErrorNs === 0n ? "" : `clocks ± ${duration(Number(d.clockErrorNs))}`;
}

/** A delay as one sentence. */
export function oneWaySentence(d: OneWay): string {
  const clocks = clockError(d);
  const text = `${duration(Number(d.p50Ns))} one way: median of ${d.packets === 1n ? "1 packet" : `${count(d.packets)} packets`}, ${stampError(d)} by the time stamps`;
  const ends = clocks === "" ? "; both ends have the same clock" : clocks === "clock unknown" ? "; the error of a clock is unknown" : `, ${clocks}`;
  return `${text}${ends}${d.p50Ns < 0n ? "; negative because the clocks disagree" : ""}`;
}

/** When packets pass each hop, as shares of 0 to 1 of the whole time from the source, by mean delays. */
export function spansOf(hops: readonly Hop[]): { from: number; length: number }[] {
  const means = hops.map((h) => Math.max(0, Number(h.oneWay?.meanNs ?? 0n)));
  const all = means.reduce((sum, m) => sum + m, 0) || 1;
  let passed = 0;
  return means.map((m) => ({ from: (passed += m) / all - m / all, length: m / all }));
}

/** Mean times in the stages of the router at the end of a hop, ns. */
export const stageTimes = (hop: Hop): Partial<Record<Stage, number>> =>
  Object.fromEntries(hop.stages.filter((s) => (stages as readonly string[]).includes(s.stage)).map((s) => [s.stage, Number(s.meanNs)]));

/** Mean time inside the router, ns; undefined: not known. */
export const transitOf = (hop: Hop): number | undefined => {
  const transit = hop.stages.find((s) => s.stage === "transit");
  return transit && Number(transit.meanNs);
};
