// Events as a CSV file.
import type { Happening } from "../../data/feed.ts";

/** One field as RFC 4180 wants it; what a spreadsheet would take for a formula is quoted as text. */
function field(text: string): string {
  if (/^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The events with a line of names before them, oldest last as on the page. */
export function eventsCsv(all: readonly Happening[]): string {
  const lines = [["time", "level", "kind", "agent", "peer", "session", "message"]];
  for (const { time, event: e } of all) lines.push([new Date(time).toISOString(), e.level, e.kind, e.agent, e.peer, e.session, e.message]);
  return lines.map((l) => l.map(field).join(",")).join("\r\n") + "\r\n";
}

/** Lets the browser keep a text as a file. */
export function keepFile(name: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
