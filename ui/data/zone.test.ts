import { expect, it } from "vitest";
import { fromWall, ownZone, wallText, zoned, zones } from "./zone.ts";

it.each([
  ["UTC", "2026-11-21T14:00", Date.UTC(2026, 10, 21, 14)],
  ["Europe/Berlin", "2026-11-21T14:00", Date.UTC(2026, 10, 21, 13)],
  ["Europe/Berlin", "2026-07-01T00:30:15", Date.UTC(2026, 5, 30, 22, 30, 15)],
  ["America/New_York", "2026-03-08T03:30", Date.UTC(2026, 2, 8, 7, 30)],
  ["Asia/Kolkata", "2026-01-01T00:00", Date.UTC(2025, 11, 31, 18, 30)],
])("in %s %s is that moment, and back", (zone, text, ms) => {
  expect(fromWall(text, zone)).toBe(ms);
  expect(wallText(ms, zone)).toBe(text);
});

it("rejects invalid times", () => expect(fromWall("", "UTC")).toBeUndefined());
it("names the day", () => expect(zoned(Date.UTC(2026, 10, 23, 8), "Europe/Berlin")).toBe("Mon 2026-11-23 09:00"));
it("has the browser's zone first", () => expect(zones()[0]).toBe(ownZone()));
