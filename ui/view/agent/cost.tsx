// Load of a host, and of its agent, over the last hour.
import { useMemo, useState } from "preact/hooks";
import { TimeChart } from "../../chart/time.tsx";
import type { Line, Range } from "../../chart/plot.ts";
import { dataClient } from "../../data/client.ts";
import { bytes, count, figures } from "../../data/quantity.ts";
import { resource, useResource } from "../../data/resource.ts";

const hour = 3_600_000;
const refreshMs = 10_000; // hosts report about as often

interface Drawn {
  times: number[];
  lines: number[][];
}

/** The columns drawn of each stream, in this order. */
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

/** CostPanel draws load and agent overhead of the last hour. */
export function CostPanel({ name }: { name: string }) {
  const series = useMemo(() => resource(refreshMs, async (signal) => {
    const [host, agent] = await Promise.all([ask("host", name, signal), ask("agent", name, signal)]);
    return { host, agent, at: Date.now() };
  }), [name]);
  useResource(series);
  const [zoom, setZoom] = useState<Range>();
  const got = series.value.value;
  const now = got?.at ?? Date.now();
  const range = zoom ?? { from: now - hour, to: now };
  const empty = series.fault.value ?? (got ? "The host reported no load in the last hour." : "Loading…");
  const chart = (title: string, drawn: Drawn | undefined, lines: [number, string, string][], format: (v: number) => string, atLeast: number) => (
    <TimeChart title={title} times={drawn?.times ?? []} range={range} onRange={setZoom} group="cost" height={150} format={format} atLeast={atLeast} empty={empty}
      lines={lines.map(([i, label, colour]): Line => ({ label, colour, values: drawn?.lines[i] ?? [] }))} />
  );
  return (
    <section class="panel" aria-labelledby="cost-title">
      <header class="spread">
        <h2 id="cost-title">Load and agent overhead, last hour</h2>
        {zoom && <button type="button" class="quiet" onClick={() => setZoom(undefined)}>Show the whole hour</button>}
      </header>
      {series.fault.value && got && <p class="fault" role="alert">{series.fault.value}</p>}
      <div class="charts">
        {chart("Host: CPU", got?.host, [[0, "of all CPUs", "--back"]], percent, 5)}
        {chart("Agent: CPU", got?.agent, [[0, "of one CPU", "--out"]], percent, 1)}
        {chart("Host: memory", got?.host, [[1, "in use", "--back"]], bytes, 1 << 20)}
        {chart("Agent: memory", got?.agent, [[1, "resident", "--out"]], bytes, 1 << 20)}
        {chart("Agent: spool", got?.agent, [[2, "waiting", "--out"]], bytes, 1 << 10)}
        {chart("Agent: rows dropped since its start", got?.agent, [[3, "rows", "--bad"]], (v) => `${count(Math.round(v))} rows`, 10)}
      </div>
    </section>
  );
}

const percent = (v: number): string => (Number.isNaN(v) ? "–" : `${figures(v)} %`);
