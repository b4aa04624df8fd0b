// How busy a host is, and what of that is the agent's, over the last hour.
import { useMemo, useState } from "preact/hooks";
import { TimeChart } from "../../chart/time.tsx";
import type { Line, Range } from "../../chart/plot.ts";
import { dataClient } from "../../data/client.ts";
import { bytes, count, figures } from "../../data/quantity.ts";
import { resource, useResource } from "../../data/resource.ts";

const hour = 3_600_000;
const every = 10_000; // ms between questions; hosts report about as often

interface Drawn {
  times: number[];
  lines: number[][];
}

/** What is drawn of a stream, in this order. */
const asked = {
  host: ["cpu_percent", "memory_used_bytes"],
  agent: ["cpu_percent", "memory_bytes", "spool_bytes", "dropped_rows"],
};

async function ask(stream: keyof typeof asked, name: string, signal: AbortSignal): Promise<Drawn> {
  const answer = await dataClient.series({
    stream, where: { agent: name }, points: 360, lines: 1,
    aggregates: asked[stream].map((column) => ({ column, function: "avg" })),
  }, { signal });
  const line = answer.lines[0];
  return { times: line?.timesMs.map(Number) ?? [], lines: line?.values.map((v) => v.values) ?? [] };
}

/** CostPanel draws load and cost of the last hour. */
export function CostPanel({ name }: { name: string }) {
  const series = useMemo(() => resource(every, async (signal) => {
    const [host, agent] = await Promise.all([ask("host", name, signal), ask("agent", name, signal)]);
    return { host, agent, at: Date.now() };
  }), [name]);
  useResource(series);
  const [zoom, setZoom] = useState<Range>();
  const got = series.value.value;
  const now = got?.at ?? Date.now();
  const range = zoom ?? { from: now - hour, to: now };
  const empty = series.fault.value ?? (got ? "The host has sent no such rows in the last hour." : "Asking the server.");
  const chart = (title: string, drawn: Drawn | undefined, lines: [number, string, string][], format: (v: number) => string, atLeast: number) => (
    <TimeChart title={title} times={drawn?.times ?? []} range={range} onRange={setZoom} group="cost" height={150} format={format} atLeast={atLeast} empty={empty}
      lines={lines.map(([i, label, colour]): Line => ({ label, colour, values: drawn?.lines[i] ?? [] }))} />
  );
  return (
    <section class="panel" aria-labelledby="cost-title">
      <header class="spread">
        <h2 id="cost-title">Load and cost, last hour</h2>
        {zoom && <button type="button" class="quiet" onClick={() => setZoom(undefined)}>Show the whole hour</button>}
      </header>
      {series.fault.value && got && <p class="fault" role="alert">{series.fault.value}</p>}
      <div class="charts">
        {chart("Host: processors", got?.host, [[0, "busy, of all", "--back"]], percent, 5)}
        {chart("Agent: processor", got?.agent, [[0, "busy, of one", "--out"]], percent, 1)}
        {chart("Host: memory in use", got?.host, [[1, "in use", "--back"]], bytes, 1 << 20)}
        {chart("Agent: memory", got?.agent, [[1, "resident", "--out"]], bytes, 1 << 20)}
        {chart("Agent: spool", got?.agent, [[2, "waits", "--out"]], bytes, 1 << 10)}
        {chart("Agent: dropped since it started", got?.agent, [[3, "rows", "--bad"]], (v) => `${count(Math.round(v))} rows`, 10)}
      </div>
    </section>
  );
}

const percent = (v: number): string => (Number.isNaN(v) ? "–" : `${figures(v)} %`);
