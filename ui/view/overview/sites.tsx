// The matrix of sites, and the pairs of hosts of two sites.
import "../../style/sites.css";
import { useEffect, useMemo } from "preact/hooks";
import { inkOn } from "../../chart/colour.ts";
import type { Tone } from "../../chart/matrix-paint.ts";
import type { HostFigures, Site, SiteFigures } from "../../gen/flow_pb.ts";
import { limited } from "../../data/account.ts";
import type { Measure } from "../../data/pair-table.ts";
import { count, duration, lossOf, share } from "../../data/quantity.ts";
import { useResource } from "../../data/resource.ts";
import { href, refine, route } from "../../data/route.ts";
import { hasSites, hostFigure, siteChoice, siteFigure, siteMatrix, siteName, worstFirst } from "../../data/sites.ts";
import { Icon } from "../../part/icon.tsx";
import { bySite, HostsOrSites } from "../../part/mode.tsx";
import { Notice } from "../../part/notice.tsx";
import { dark } from "../../part/theme.tsx";
import { Legend } from "./legend.tsx";
import { liveTones, paletteOf, shadeOf } from "./picture.ts";
import { groundOf, measureOf } from "./matrix.tsx";
import { spanOf, type Span } from "./range.ts";
import { figureText, measureWords } from "./state.ts";

const gridMost = 40; // sites in a grid; pairs of more are listed
const listMost = 200; // pairs in a list

/** The pair of sites in the address of the page. */
function chosenPair(query: URLSearchParams): { source: string; destination: string } | undefined {
  const [source, destination] = [query.get("from"), query.get("to")];
  return source === null || destination === null ? undefined : { source, destination };
}

/** Follows the figures by site while the overview is shown. */
export function useSites(session: string): void {
  const { query } = route.value;
  const [shown, from, to] = [bySite(), query.get("from"), query.get("to")];
  useEffect(() => {
    const hosts = chosenPair(query);
    siteChoice.value = { session, shown, ...(shown && hosts && { hosts }) };
    if (shown) void siteMatrix.refresh();
  }, [session, shown, from, to]);
  useResource(siteMatrix);
}

/** SitesPanel shows the matrix of sites, or the pairs of hosts of two sites. */
export function SitesPanel({ only }: { only: string }) {
  const { query } = route.value;
  const measure = measureOf(query.get("by"));
  const palette = useMemo(() => paletteOf(measure, dark.value, groundOf()), [measure, dark.value]);
  const known = siteMatrix.value.value;
  const fault = siteMatrix.fault.value;
  const pair = chosenPair(query);
  return (
    <section class="panel sites-panel" aria-labelledby="sites-title">
      <header>
        <h2 id="sites-title">{pair ? <Crumbs pair={pair} /> : <>Sites <span class="soft">{limited.value ? "" : known?.answer.sites.length}</span></>}</h2>
        <div class="controls">
          <HostsOrSites label="Matrix of" known={hasSites()} keys={["from", "to"]} />
          {!limited.value && <div class="segments" role="group" aria-label="Metric">
            {(["delay", "p99", "loss"] as Measure[]).map((kind) => (
              <button key={kind} type="button" aria-pressed={kind === measure} onClick={() => refine({ by: kind === "delay" ? undefined : kind })}>{measureWords[kind].short}</button>
            ))}
          </div>}
        </div>
      </header>
      {fault && <p class="fault" role="alert">No figures by site: {fault} Retrying.</p>}
      {limited.value ? <Notice title="Sites are not visible with this token">Figures by site are sums of all pairs of hosts, and the token sees only a part of them.</Notice>
        : !known ? !fault && <p class="soft">Loading…</p>
        : pair ? <HostPairs known={known} pair={pair} measure={measure} only={only} />
        : known.answer.sites.length === 0 ? <Notice title="No host has a site">A site is the value of the label {known.answer.label || "site"} of hosts.</Notice>
        : <Pairs sites={known.answer.sites} pairs={known.answer.pairs} measure={measure} palette={palette} />}
    </section>
  );
}

function Crumbs({ pair }: { pair: { source: string; destination: string } }) {
  return (
    <>
      <button type="button" class="quiet back" onClick={() => refine({ from: undefined, to: undefined })}><Icon name="left" />Sites</button>
      <span>{siteName(pair.source)} → {siteName(pair.destination)}</span>
    </>
  );
}

function Pairs({ sites, pairs, measure, palette }: { sites: Site[]; pairs: SiteFigures[]; measure: Measure; palette: Tone[] }) {
  const span = spanOf(Float64Array.from(pairs, (p) => siteFigure(p, measure)));
  if (pairs.length === 0) return <Notice title="No measured pairs">No packets between hosts were measured in the last minute.</Notice>;
  return (
    <>
      {sites.length <= gridMost
        ? <Grid sites={sites} pairs={pairs} measure={measure} palette={palette} span={span} />
        : <List pairs={pairs} measure={measure} />}
      {sites.length <= gridMost && <Legend measure={measure} span={span} palette={palette} time="last minute" />}
      <WorstSites pairs={pairs} measure={measure} />
    </>
  );
}

const open = (p: { source: string; destination: string }) => refine({ from: p.source, to: p.destination });

function Grid({ sites, pairs, measure, palette, span }: { sites: Site[]; pairs: SiteFigures[]; measure: Measure; palette: Tone[]; span: Span | undefined }) {
  const of = new Map(pairs.map((p) => [`${p.source}\n${p.destination}`, p]));
  return (
    <div class="scroll-x">
      <table class={`sites-grid ${sites.length > 12 ? "dense" : ""}`} aria-label={`${measureWords[measure].long}, from the site of the row to the site of the column`}>
        <thead>
          <tr><td class="corner">from ↓ to →</td>{sites.map((s) => <th key={s.name} scope="col"><span>{siteName(s.name)}</span></th>)}</tr>
        </thead>
        <tbody>
          {sites.map((row) => (
            <tr key={row.name}>
              <th scope="row">{siteName(row.name)} <small class="soft">{count(row.agents)}</small></th>
              {sites.map((column) => {
                const pair = of.get(`${row.name}\n${column.name}`);
                return <td key={column.name}>{pair ? <Cell pair={pair} measure={measure} palette={palette} span={span} /> : <span class="none"><span class="hidden-text">not measured</span></span>}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell({ pair, measure, palette, span }: { pair: SiteFigures; measure: Measure; palette: Tone[]; span: Span | undefined }) {
  const value = siteFigure(pair, measure);
  const colour = Number.isNaN(value) ? undefined : liveTones(palette)[shadeOf(measure, span, value)]?.colour;
  const loss = lossOf(Number(pair.total?.lost ?? 0n), Number(pair.total?.expected ?? 0n));
  const words = [
    `${siteName(pair.source)} to ${siteName(pair.destination)}: ${figureText(measure, value)}`, `loss ${share(loss)}`, pair.pairs === 1 ? "1 pair of hosts" : `${count(pair.pairs)} pairs of hosts`,
    pair.worst && `worst ${pair.worst.source} → ${pair.worst.destination}`,
  ].filter(Boolean).join(", ");
  return (
    <button type="button" class="site-cell" title={words} onClick={() => open(pair)} style={colour ? { background: colour, "--cell-ink": inkOn(colour) } : {}}>
      <span class="hidden-text">{siteName(pair.source)} to {siteName(pair.destination)}: </span>
      <strong>{figureText(measure, value)}</strong>
      <small>{measure === "loss" ? duration(pair.total?.delay?.p50Ns) : `loss ${share(loss)}`}</small>
    </button>
  );
}

function List({ pairs, measure }: { pairs: SiteFigures[]; measure: Measure }) {
  const sorted = worstFirst(pairs, (p) => siteFigure(p, measure));
  return (
    <div class="scroll-x">
      <table class="cards">
        <thead><tr><th scope="col">Sites</th><th scope="col" class="number">Median delay</th><th scope="col" class="number">p99 delay</th><th scope="col" class="number">Loss</th><th scope="col" class="number">Pairs of hosts</th></tr></thead>
        <tbody>
          {sorted.slice(0, listMost).map((p) => (
            <tr key={`${p.source}\n${p.destination}`}>
              <td data-name=""><button type="button" class="quiet" onClick={() => open(p)}>{siteName(p.source)} → {siteName(p.destination)}</button></td>
              <td data-name="Median delay" class="number">{figureText("delay", siteFigure(p, "delay"))}</td><td data-name="p99 delay" class="number">{figureText("p99", siteFigure(p, "p99"))}</td>
              <td data-name="Loss" class="number">{figureText("loss", siteFigure(p, "loss"))}</td><td data-name="Pairs of hosts" class="number">{count(p.pairs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > listMost && <p class="soft small">The worst {listMost} of {count(sorted.length)} pairs of sites.</p>}
    </div>
  );
}

/** WorstSites names the worst pair of hosts of the worst pairs of sites. */
function WorstSites({ pairs, measure }: { pairs: SiteFigures[]; measure: Measure }) {
  const worst = worstFirst(pairs, (p) => siteFigure(p, measure)).filter((p) => p.worst && siteFigure(p, measure) > 0).slice(0, 5);
  if (worst.length === 0) return null;
  return (
    <aside class="worst sites-worst" aria-label="Worst pairs of sites">
      <div>
        <h3>{measure === "loss" ? "Highest loss" : `Highest ${measureWords[measure].short.toLowerCase()}`} <span class="soft small">last minute</span></h3>
        <ol>
          {worst.map((p) => (
            <li key={`${p.source}\n${p.destination}`}>
              <button type="button" class="quiet" onClick={() => open(p)}>{siteName(p.source)} → {siteName(p.destination)}</button>
              <span class="soft small">worst {p.worst?.source} → {p.worst?.destination}</span>
              <span class="number">{figureText(measure, siteFigure(p, measure))}</span>
            </li>
          ))}
        </ol>
      </div>
    </aside>
  );
}

function HostPairs({ known, pair, measure, only }: { known: { answer: { hosts: HostFigures[] }; hosts?: { source: string; destination: string } | undefined }; pair: { source: string; destination: string }; measure: Measure; only: string }) {
  if (known.hosts?.source !== pair.source || known.hosts.destination !== pair.destination) return <p class="soft">Loading…</p>;
  const hosts = worstFirst(known.answer.hosts, (p) => hostFigure(p, measure));
  if (hosts.length === 0) return <Notice title="No measured pairs">No packets between hosts of these sites were measured in the last minute.</Notice>;
  return (
    <div class="scroll-x">
      <table class="cards site-hosts">
        <thead>
          <tr><th scope="col">Pair of hosts</th><th scope="col" class="number">Median delay</th><th scope="col" class="number">p99 delay</th><th scope="col" class="number">Highest p99</th><th scope="col" class="number">Loss</th><th scope="col" class="number">Packets</th></tr>
        </thead>
        <tbody>
          {hosts.slice(0, listMost).map((p) => (
            <tr key={`${p.source}\n${p.destination}`}>
              <td data-name=""><a href={href(["pair", p.source, p.destination], { session: only })}>{p.source} → {p.destination}</a></td>
              <td data-name="Median delay" class="number">{duration(p.p50Ns)}</td><td data-name="p99 delay" class="number">{duration(p.p99Ns)}</td>
              <td data-name="Highest p99" class="number">{duration(p.worstP99Ns)}</td>
              <td data-name="Loss" class="number">{share(lossOf(Number(p.lost), Number(p.expected)))}</td><td data-name="Packets" class="number">{count(p.packets)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="soft small">Delays are those of the latest second, the highest p99 that of a second of the last minute; loss is of the last minute.{hosts.length > listMost && ` The worst ${listMost} of ${count(hosts.length)} pairs.`}</p>
    </div>
  );
}
