import { describe, expect, it } from "vitest";
import { cronOf, cronWords, repeatOf, type Repeat } from "./cron.ts";

const base: Repeat = { kind: "daily", times: ["09:00"], days: [1], line: "" };

describe("cronOf", () => {
  const rows: [string, Partial<Repeat>, string][] = [
    ["daily", {}, "0 9 * * *"],
    ["two hours", { times: ["21:30", "09:30"] }, "30 9,21 * * *"],
    ["the same time twice", { times: ["09:00", "09:00"] }, "0 9 * * *"],
    ["all of two hours and minutes", { times: ["09:00", "09:30", "10:00", "10:30"] }, "0,30 9,10 * * *"],
    ["weekdays", { kind: "weekdays" }, "0 9 * * 1-5"],
    ["weekly", { kind: "weekly", days: [3, 0, 1] }, "0 9 * * 0,1,3"],
    ["hourly", { kind: "hourly", times: ["00:15"] }, "15 * * * *"],
    ["own line", { kind: "own", line: "  */5  *  * * *" }, "*/5 * * * *"],
  ];
  it.each(rows)("%s", (_, r, line) => expect(cronOf({ ...base, ...r })).toEqual({ line }));
  it.each([
    ["no time", { times: [] }, "times"],
    ["half a time", { times: ["09:00", ""] }, "times"],
    ["times that one line cannot hold", { times: ["09:00", "10:30"] }, "times"],
    ["no day", { kind: "weekly", days: [] }, "days"],
  ] as [string, Partial<Repeat>, string][])("refuses %s", (_, r, at) => expect(cronOf({ ...base, ...r })).toMatchObject({ at }));
});

describe("repeatOf", () => {
  it.each(["0 9 * * *", "30 9,21 * * *", "0,30 9,10 * * *", "0 9 * * 1-5", "0 9 * * 0,1,3", "15 * * * *", "*/5 * * * *", "0 9 1 * *", "0 9 * * MON", "nonsense"])("comes back from %s", (line) => {
    expect(cronOf(repeatOf(line))).toEqual({ line });
  });
  it("keeps a line that it cannot parse", () => expect(repeatOf("0 25 * * *").kind).toBe("own"));
});

it("describes a line", () => {
  expect(cronWords("0 9 * * 1-5")).toBe("Monday to Friday at 09:00");
  expect(cronWords("0 9 * * 0,6")).toBe("Saturday, Sunday at 09:00");
  expect(cronWords("5 * * * *")).toBe("every hour at minute 5");
  expect(cronWords("*/7 * * * *")).toBe("cron */7 * * * *");
});
