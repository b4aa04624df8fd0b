import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventSchema, type Event } from "../gen/server_pb.ts";
import { Feed, happenings, merged } from "./feed.ts";

const event = (at: number, message = ""): Event => create(EventSchema, { time: timestampFromMs(at), kind: "loss", message });

describe("happenings", () => {
  it("are newest first, without those of no time", () => {
    expect(happenings([event(1), event(3), create(EventSchema), event(2)]).map((h) => h.time)).toEqual([3, 2, 1]);
  });
  it("distinguish equal ones, and are not duplicated when repeated", () => {
    const twice = happenings([event(1), event(1)]);
    expect(new Set(twice.map((h) => h.key)).size).toBe(2);
    expect(merged(twice, happenings([event(1), event(1)]))).toBe(twice);
    expect(merged(twice, happenings([event(5)])).map((h) => h.time)).toEqual([5, 1, 1]);
  });
});

describe("Feed", () => {
  const now = 1_000_000_000;
  let asked: [number, number | undefined][];
  beforeEach(() => {
    vi.useFakeTimers({ now });
    asked = [];
  });
  afterEach(() => vi.useRealTimers());
  const answering = (...answers: (Event[] | Error)[]) => async (from: number, to: number | undefined): Promise<Event[]> => {
    asked.push([from, to]);
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer instanceof Error) throw answer;
    return answer ?? [];
  };

  it("follows new events and drops those that are too old", async () => {
    const feed = new Feed({ last: 3_600_000 }, answering([event(now - 3_599_000), event(now - 1000)], [event(now - 1000), event(now + 500)]));
    await vi.advanceTimersByTimeAsync(0);
    expect(feed.events.value?.map((h) => h.time - now)).toEqual([-1000, -3_599_000]);
    await vi.advanceTimersByTimeAsync(2000);
    expect(feed.events.value?.map((h) => h.time - now)).toEqual([500, -1000]);
    expect(asked).toEqual([[now - 3_600_000, undefined], [now - 1000 - 300_000, undefined]]);
    const list = feed.events.value;
    await vi.advanceTimersByTimeAsync(2000);
    expect(feed.events.value).toBe(list); // nothing new: no redraw
    feed.close();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).toHaveLength(3);
  });

  it("queries a past range once", async () => {
    const feed = new Feed({ from: 100, to: 200 }, answering([event(150)]));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(asked).toEqual([[100, 200]]);
    feed.close();
  });

  it("keeps its events over an error, and resumes", async () => {
    const feed = new Feed({ last: 60_000 }, answering([event(now)], new Error("no"), [event(now + 1)]));
    await vi.advanceTimersByTimeAsync(2000);
    expect([feed.events.value?.length, feed.fault.value]).toEqual([1, "No."]);
    await vi.advanceTimersByTimeAsync(2000);
    expect([feed.events.value?.length, feed.fault.value]).toEqual([2, undefined]);
    feed.close();
  });

  it("reports that there is more, and queries it", async () => {
    const many = Array.from({ length: 10_000 }, (_, i) => event(now - i, String(i)));
    const feed = new Feed({ last: 3_600_000 }, answering(many, [event(now - 20_000)], []));
    await vi.advanceTimersByTimeAsync(0);
    expect(feed.cut.value).toBe(true);
    await feed.older();
    expect([feed.cut.value, feed.events.value?.length]).toEqual([false, 10_001]);
    expect(asked.at(-1)).toEqual([now - 3_600_000, now - 9999 + 1]);
    feed.close();
  });
});
