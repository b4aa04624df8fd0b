// Wall-clock times in a time zone.

/** The browser's time zone. */
export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** All time zones: the browser's first, then UTC, then the others by name. */
export function zones(): string[] {
  const all = typeof Intl.supportedValuesOf === "function" ? Intl.supportedValuesOf("timeZone") : [];
  return [...new Set([ownZone(), "UTC", ...all])];
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string): Intl.DateTimeFormat {
  let found = formats.get(zone);
  if (!found) {
    found = new Intl.DateTimeFormat("en-GB", {
      timeZone: zone, hourCycle: "h23", weekday: "short", year: "numeric", month: "2-digit", day: "2-digit",
      hour: "2-digit", minute: "2-digit", second: "2-digit",
    });
    formats.set(zone, found);
  }
  return found;
}

interface Wall { weekday: string; date: string; time: string }

function wall(ms: number, zone: string): Wall {
  const p = Object.fromEntries(format(zone).formatToParts(ms).map((part) => [part.type, part.value]));
  return { weekday: p.weekday ?? "", date: `${p.year}-${p.month}-${p.day}`, time: `${p.hour}:${p.minute}:${p.second}` };
}

/** A time in a zone as value of a datetime-local input: 2026-11-21T14:05, with seconds if not 0. */
export function wallText(ms: number, zone: string): string {
  const { date, time } = wall(ms, zone);
  return `${date}T${time.endsWith(":00") ? time.slice(0, 5) : time}`;
}

/** A time in a zone as text: Mon 2026-11-23 09:00. */
export function zoned(ms: number, zone: string): string {
  const { weekday, date, time } = wall(ms, zone);
  return `${weekday} ${date} ${time.endsWith(":00") ? time.slice(0, 5) : time}`;
}

/** ms since 1970 of a local time in a zone; undefined if invalid. */
export function fromWall(text: string, zone: string): number | undefined {
  const found = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?$/.exec(text);
  if (!found) return undefined;
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = found.slice(1).map((n) => Number(n ?? 0));
  const asUTC = Date.UTC(year, month - 1, day, hour, minute, second);
  if (Number.isNaN(asUTC)) return undefined;
  // twice: the first guess may be on the other side of a DST change
  let guess = asUTC - offset(asUTC, zone);
  guess = asUTC - offset(guess, zone);
  return guess;
}

function offset(ms: number, zone: string): number {
  const { date, time } = wall(ms, zone);
  return Date.parse(`${date}T${time}Z`) - Math.floor(ms / 1000) * 1000;
}
