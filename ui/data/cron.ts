// Schedules and their cron expressions.

export type RepeatKind = "hourly" | "daily" | "weekdays" | "weekly" | "own";

/** A schedule of repeated starts. */
export interface Repeat {
  kind: RepeatKind;
  /** Times of the day, HH:MM; for hourly only the minute of the first counts. */
  times: string[];
  /** Days of the week for weekly: 0 is Sunday. */
  days: number[];
  /** The cron expression of kind own. */
  line: string;
}

/** A cron expression, or why there is none. */
export type Line = { line: string } | { fault: string; at: "times" | "days" };

/** The days of a week, from Monday. */
export const weekdays: readonly { day: number; name: string; short: string }[] = [
  { day: 1, name: "Monday", short: "Mon" }, { day: 2, name: "Tuesday", short: "Tue" }, { day: 3, name: "Wednesday", short: "Wed" },
  { day: 4, name: "Thursday", short: "Thu" }, { day: 5, name: "Friday", short: "Fri" }, { day: 6, name: "Saturday", short: "Sat" },
  { day: 0, name: "Sunday", short: "Sun" },
];

/** The cron expression of a schedule. */
export function cronOf(r: Repeat): Line {
  if (r.kind === "own") return { line: r.line.trim().replace(/\s+/g, " ") };
  const times = r.times.map(parseTime);
  if (times.length === 0 || times.includes(undefined)) return { fault: "Enter a time of day such as 09:00.", at: "times" };
  const known = times.filter((t) => t !== undefined);
  const minutes = unique(known.map((t) => t.minute));
  if (r.kind === "hourly") return { line: `${minutes[0] ?? 0} * * * *` };
  const hours = unique(known.map((t) => t.hour));
  const distinct = new Set(known.map((t) => t.hour * 60 + t.minute)).size;
  if (minutes.length * hours.length !== distinct) {
    return { fault: "These times need more than one cron expression: use the same minutes in every hour, or create a second session.", at: "times" };
  }
  if (r.kind === "weekly" && r.days.length === 0) return { fault: "Select at least one day.", at: "days" };
  const days = { daily: "*", weekdays: "1-5", weekly: unique(r.days).join(",") }[r.kind];
  return { line: `${minutes.join(",")} ${hours.join(",")} * * ${days}` };
}

function parseTime(text: string): { hour: number; minute: number } | undefined {
  const found = /^(\d\d?):(\d\d)$/.exec(text);
  const hour = Number(found?.[1]);
  const minute = Number(found?.[2]);
  return found && hour < 24 && minute < 60 ? { hour, minute } : undefined;
}

const unique = (all: number[]): number[] => [...new Set(all)].sort((a, b) => a - b);

const two = (n: number): string => String(n).padStart(2, "0");

function list(field: string, below: number): number[] | undefined {
  const all = field.split(",").map((n) => (/^\d+$/.test(n) ? Number(n) : Number.NaN));
  return all.every((n) => n < below) ? unique(all) : undefined;
}

/** The schedule of a cron expression. */
export function repeatOf(line: string): Repeat {
  const own: Repeat = { kind: "own", times: ["09:00"], days: [1], line };
  const [minute = "", hour = "", dayOfMonth, month, dayOfWeek = "", ...rest] = line.trim().split(/\s+/);
  if (dayOfMonth !== "*" || month !== "*" || rest.length > 0) return own;
  const minutes = list(minute, 60);
  if (!minutes) return own;
  if (hour === "*") return dayOfWeek === "*" && minutes.length === 1 ? { ...own, kind: "hourly", times: [`00:${two(minutes[0] ?? 0)}`] } : own;
  const hours = list(hour, 24);
  if (!hours) return own;
  const times = hours.flatMap((h) => minutes.map((m) => `${two(h)}:${two(m)}`));
  if (dayOfWeek === "*") return { ...own, kind: "daily", times };
  if (dayOfWeek === "1-5") return { ...own, kind: "weekdays", times };
  const days = list(dayOfWeek, 7);
  return days ? { ...own, kind: "weekly", times, days } : own;
}

/** A cron expression as text, such as "every day at 09:00". */
export function cronWords(line: string): string {
  const r = repeatOf(line);
  const at = r.times.join(", ");
  switch (r.kind) {
    case "hourly": return `every hour at minute ${Number(r.times[0]?.slice(3) ?? 0)}`;
    case "daily": return `every day at ${at}`;
    case "weekdays": return `Monday to Friday at ${at}`;
    case "weekly": return `${weekdays.filter((d) => r.days.includes(d.day)).map((d) => d.name).join(", ")} at ${at}`;
    default: return `cron ${line}`;
  }
}
