// Experiments whose reports were published, and the report of one.
import { useMemo } from "preact/hooks";
import { limited } from "../data/account.ts";
import { moment } from "../data/quantity.ts";
import { imageOf, reportResource, reports, widthOf, type Head, type Part, type Report, type Verdict } from "../data/reports.ts";
import { useResource } from "../data/resource.ts";
import { href, route } from "../data/route.ts";
import { Notice } from "../part/notice.tsx";
import { Table, type Column } from "../part/table.tsx";
import { dark } from "../part/theme.tsx";
import { useTitle } from "../part/title.ts";
import { VerdictMark, verdictWords } from "../part/verdict.tsx";
import "../style/experiments.css";

/** ExperimentsView shows the list, or the report in the address. */
export function ExperimentsView() {
  const [, experiment, report] = route.value.words;
  return experiment ? <ReportPage experiment={experiment} report={report} /> : <ExperimentList />;
}

function ExperimentList() {
  const { value, fault } = useResource(reports);
  useTitle("Experiments");
  const heads = value.value;
  return (
    <div class="stack experiments">
      <header><h1>Experiments</h1><p class="soft">Reports that <code>python3 -m pillion.report FOLDER --publish SERVER</code> published, the newest of each experiment.</p></header>
      {fault.value && <p class="field-fault" role="alert">{fault.value}</p>}
      {!heads && !fault.value && <p class="soft" role="status">Loading…</p>}
      {heads?.length === 0 && <Notice title="No reports">{limited.value ? "Reports of experiments are not visible with a limited token." : "No report of an experiment has been published to this server."}</Notice>}
      {heads && heads.length > 0 && <section class="panel"><Heads heads={heads} /></section>}
    </div>
  );
}

/** Heads lists reports. */
export function Heads({ heads }: { heads: readonly Head[] }) {
  const columns: Column<Head>[] = [
    { key: "experiment", title: "Experiment", cell: (h) => <a href={href(["experiments", h.experiment])}>{h.experiment}</a> },
    { key: "question", title: "Question", cell: (h) => h.question || "–" },
    { key: "verdicts", title: "Targets", cell: (h) => <Verdicts head={h} /> },
    { key: "time", title: "Published", cell: (h) => moment(h.time) },
  ];
  return <Table caption="Experiments" columns={columns} rows={heads} keyOf={(h) => h.experiment} />;
}

function Verdicts({ head }: { head: Head }) {
  const found = (Object.keys(verdictWords) as Verdict[]).filter((v) => head.verdicts[v] > 0);
  if (!found.length) return <>–</>;
  return <span class="row">{found.map((v) => <VerdictMark key={v} verdict={v} count={head.verdicts[v]} />)}</span>;
}

function ReportPage({ experiment, report }: { experiment: string; report: string | undefined }) {
  const { value, fault } = useResource(useMemo(() => reportResource(experiment, report), [experiment, report]));
  useTitle(`Experiment ${experiment}`);
  const found = value.value;
  if (found) return <ReportBody report={found} colours={dark.value ? found.head.dark : found.head.light} />;
  if (fault.value) return <Notice title="Could not load the report" level="error">{fault.value} Retrying.</Notice>;
  if (found === null) {
    return <Notice title="No such report" action={<a class="button" href="#/experiments">All experiments</a>}>No report of {experiment} has been published to this server.</Notice>;
  }
  return <p class="soft" role="status">Loading…</p>;
}

/** ReportBody shows a report; colours are the colours of its drawings. */
export function ReportBody({ report: { head, parts, missing }, colours }: { report: Report; colours: string }) {
  return (
    <article class="stack report">
      <header>
        <p class="small"><a href="#/experiments">Experiments</a></p>
        <h1>{head.title}</h1>
        {head.question && <p class="report-question">{head.question}</p>}
        <dl class="report-facts">
          {head.facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}
          <div><dt>published</dt><dd>{moment(head.time)}</dd></div>
        </dl>
      </header>
      {missing > 0 && <p class="field-fault" role="alert">{missing} of {head.parts} parts of this report are missing. Publish it again.</p>}
      {sectionsOf(parts).map(({ title, parts: own }, i) => (
        <section key={i} class="panel" aria-labelledby={`report-${i}`}>
          <header><h2 id={`report-${i}`}>{title}</h2></header>
          {own.map((part, k) => <ReportPart key={k} part={part} colours={colours} />)}
        </section>
      ))}
    </article>
  );
}

function sectionsOf(parts: readonly Part[]): { title: string; parts: Part[] }[] {
  const sections: { title: string; parts: Part[] }[] = [];
  for (const part of parts) {
    if (part.kind === "section") sections.push({ title: part.title, parts: [] });
    else if (sections.length) sections[sections.length - 1]?.parts.push(part);
    else sections.push({ title: "Report", parts: [part] });
  }
  return sections;
}

function ReportPart({ part, colours }: { part: Part; colours: string }) {
  switch (part.kind) {
    case "text": return <p class={part.note ? "soft small report-text" : "report-text"}>{part.text}</p>;
    case "verdict": return <p class="report-verdict"><VerdictMark verdict={part.verdict} /><span>{part.text}</span></p>;
    case "table": return <ReportTable part={part} />;
    case "code": return <div><p class="soft small">{part.caption}</p><pre class="scroll-x report-code" tabIndex={0}>{part.text}</pre></div>;
    case "figure": return (
      <figure class="report-figure">
        <img src={imageOf(part.svg, colours)} width={widthOf(part.svg)} alt={`${part.title}. ${part.description}`} />
        <figcaption class="soft small"><b>{part.title}.</b> {part.caption || part.description}</figcaption>
      </figure>
    );
    default: return null;
  }
}

function ReportTable({ part }: { part: Extract<Part, { kind: "table" }> }) {
  const kindOf = (i: number): string | undefined => (part.numeric.includes(i) ? "number" : undefined);
  return (
    <div class="scroll-x table-box report-table" role="region" aria-label={part.caption} tabIndex={0}>
      <table>
        <caption class="soft small">{part.caption}</caption>
        <thead><tr>{part.columns.map((c, i) => <th key={i} scope="col" class={kindOf(i)}>{c}</th>)}</tr></thead>
        <tbody>{part.rows.map((row, k) => <tr key={k} class={part.marked.includes(k) ? "report-marked" : undefined}>{row.map((v, i) => <td key={i} class={kindOf(i)}>{v}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}
