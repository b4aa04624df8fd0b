// Figures of the last minute by site.
import { signal } from "@preact/signals";
import type { HostFigures, SiteFigures } from "../gen/flow_pb.ts";
import { flowClient } from "./client.ts";
import { lossOf } from "./quantity.ts";
import type { Measure } from "./pair-table.ts";
import { resource } from "./resource.ts";

/** What is shown by site: the session, and the pair of sites whose hosts are listed. */
export interface SiteChoice {
  session: string;
  hosts?: { source: string; destination: string };
  /** The matrix of sites is shown; otherwise only whether there are sites matters. */
  shown: boolean;
}

/** The current choice. */
export const siteChoice = signal<SiteChoice>({ session: "", shown: false });

const shownMs = 2000;
const hiddenMs = 30_000;

/** The figures by site of the current choice. */
export const siteMatrix = resource(() => (siteChoice.peek().shown ? shownMs : hiddenMs), async (abort) => {
  const { session, hosts } = siteChoice.peek();
  return { answer: await flowClient.siteMatrix({ session, ...(hosts && { hosts }) }, { signal: abort }), hosts };
});

/** Whether there are sites. */
export const hasSites = (): boolean => (siteMatrix.value.value?.answer.sites.length ?? 0) > 0;

/** Name of a site as shown: agents without a site have the empty one. */
export const siteName = (name: string): string => name || "no site";

/** The figure of a pair of sites; NaN: none. */
export function siteFigure(pair: SiteFigures, measure: Measure): number {
  const total = pair.total;
  if (measure === "loss") return lossOf(Number(total?.lost ?? 0n), Number(total?.expected ?? 0n)) ?? NaN;
  return (measure === "p99" ? total?.delay?.p99Ns : total?.delay?.p50Ns) ?? NaN;
}

/** The figure of a pair of hosts; NaN: none. */
export function hostFigure(pair: HostFigures, measure: Measure): number {
  if (measure === "loss") return lossOf(Number(pair.lost), Number(pair.expected)) ?? NaN;
  return measure === "p99" ? pair.worstP99Ns : pair.p50Ns;
}

/** Pairs with the highest figure first; those without one last. */
export function worstFirst<T extends { source: string; destination: string }>(pairs: readonly T[], figure: (pair: T) => number): T[] {
  const value = (p: T) => (Number.isNaN(figure(p)) ? -Infinity : figure(p));
  return [...pairs].sort((a, b) => value(b) - value(a) || a.source.localeCompare(b.source) || a.destination.localeCompare(b.destination));
}
