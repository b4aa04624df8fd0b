import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { WatchWindowsResponseSchema, WindowSchema, WindowsResponseSchema, type WatchWindowsResponse } from "../gen/flow_pb.ts";
import { figures } from "./window.fixture.ts";

const windows = vi.fn();
const watchWindows = vi.fn();
vi.mock("./client.ts", () => ({
  flowClient: { windows: (...a: unknown[]) => windows(...a), watchWindows: (...a: unknown[]) => watchWindows(...a) },
  sentence: (e: unknown) => String(e),
  note: () => undefined,
}));
const { Direction, most, reversed, WindowList } = await import("./windows.ts");
const { PairFeed } = await import("./pair.ts");
const { reached, unreached } = await import("./link.ts");

const starts = (list: readonly { start: number }[]) => list.map((f) => f.start / 1000);

describe("a list of windows", () => {
  test("live windows replace those with their start and are sorted", () => {
    const list = new WindowList();
    list.replace([figures(1000), figures(2000, { packets: 5 })], 1000, 0);
    list.add([figures(4000), figures(2000, { packets: 9 })], 1000);
    list.add([figures(3000)], 1000);
    expect(starts(list.list)).toEqual([1, 2, 3, 4]);
    expect(list.list[1]?.packets).toBe(9);
  });
  test("an answer in transit does not replace windows that grew meanwhile", () => {
    const list = new WindowList();
    list.add([figures(5000, { packets: 30 }), figures(6000)], 1000);
    list.replace([figures(4000), figures(5000, { packets: 10 })], 1000, 4000);
    expect(starts(list.list)).toEqual([4, 5, 6]);
    expect(list.list[1]?.packets).toBe(30);
  });
  test("a restarted server that has only the end of a window does not shrink it", () => {
    const list = new WindowList();
    list.replace([figures(10_000, { packets: 90 })], 10_000, 0);
    list.add([figures(10_000, { packets: 10 })], 10_000);
    expect(list.list[0]?.packets).toBe(90);
  });
  test("an answer with another length replaces all", () => {
    const list = new WindowList();
    list.add([figures(1000), figures(2000)], 1000);
    list.replace([figures(0)], 10_000, 0);
    expect(starts(list.list)).toEqual([0]);
    expect(list.step).toBe(10_000);
  });
  test("live windows of another length are dropped", () => {
    const list = new WindowList();
    list.replace([figures(0)], 10_000, 0);
    expect(list.add([figures(1000)], 1000)).toBe(false);
    expect(starts(list.list)).toEqual([0]);
  });
  test("a part keeps older windows, a full answer does not", () => {
    const list = new WindowList();
    list.replace([figures(1000), figures(2000)], 1000, 1000);
    list.replace([figures(5000)], 1000, 5000, true);
    expect(starts(list.list)).toEqual([1, 2, 5]);
    list.replace([figures(9000)], 1000, 9000);
    expect(starts(list.list)).toEqual([9]);
  });
  test("memory is bounded", () => {
    const list = new WindowList();
    for (let i = 0; i < most + 500; i += 100) list.add(Array.from({ length: 100 }, (_, k) => figures((i + k) * 1000)), 1000);
    expect(list.list).toHaveLength(most);
    list.trim((most + 490) * 1000);
    expect(list.list.length).toBeLessThanOrEqual(11);
    list.trim(1e12);
    expect(list.list).toHaveLength(0);
  });
  test("a range gets one more window on each side", () => {
    const list = new WindowList();
    list.replace([1, 2, 3, 4, 5, 6].map((s) => figures(s * 1000)), 1000, 0);
    expect(starts(list.within(3000, 5000))).toEqual([2, 3, 4, 5]);
  });
});

test("the other direction has the ends of a flow swapped", () => {
  expect(reversed({ source: "a", destination: "b", session: "s", src: "x", dst: "y", sport: 1, dport: 2 }))
    .toEqual({ source: "b", destination: "a", session: "s", src: "y", dst: "x", sport: 2, dport: 1, proto: undefined });
});

const message = (start: number, packets = 20, stepMs = 1000n) => create(WatchWindowsResponseSchema, { stepMs, windows: [create(WindowSchema, { startMs: BigInt(start), packets: BigInt(packets) })] });

/** A stream that a test controls. */
function channel() {
  const queue: (WatchWindowsResponse | Error)[] = [];
  let wake: () => void = () => undefined;
  return {
    push(m: WatchWindowsResponse | Error) {
      queue.push(m);
      wake();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        while (queue.length === 0) await new Promise<void>((done) => (wake = done));
        const m = queue.shift();
        if (m instanceof Error) throw m;
        if (m) yield m;
      }
    },
  };
}

const base = 1_700_000_000_000;
const answer = (from: number, to: number, step = 1000) => create(WindowsResponseSchema, {
  stepMs: BigInt(step), sampled: 1, sessions: ["s"],
  windows: Array.from({ length: Math.max(0, Math.floor((to - from) / step)) }, (_, i) => ({ startMs: BigInt(from + i * step), packets: 10n })),
});

describe("a feed", () => {
  let streams: ReturnType<typeof channel>[] = [];
  let known = base; // what the server has
  beforeEach(() => {
    vi.useFakeTimers({ now: base });
    streams = [];
    known = base;
    windows.mockReset().mockImplementation(async (q: { from: { seconds: bigint }; to: { seconds: bigint }; points: number }) => {
      const from = Number(q.from.seconds) * 1000;
      return answer(from, Math.min(Number(q.to.seconds) * 1000, known));
    });
    watchWindows.mockReset().mockImplementation(() => {
      const c = channel();
      streams.push(c);
      return c;
    });
  });
  afterEach(() => vi.useRealTimers());
  const wait = (ms: number) => vi.advanceTimersByTimeAsync(ms);

  test("shows stored windows, then follows both directions in the same step", async () => {
    const feed = new PairFeed({ source: "a", destination: "b" });
    feed.look({ live: true, length: 60_000 });
    await wait(10);
    expect(feed.drawn.value).toMatchObject({ from: base - 60_000, to: base, step: 1000 });
    expect(feed.drawn.value?.out.length).toBe(61 - 1);
    expect(watchWindows.mock.calls.map((c) => [c[0].selection.source, c[0].stepMs])).toEqual([["a", 1000n], ["b", 1000n]]);
    streams[0]?.push(message(base));
    await wait(100);
    expect(feed.drawn.value?.to).toBe(base + 1000);
    expect(feed.drawn.value?.out.at(-1)?.start).toBe(base);
    feed.close();
  });

  test("slides without new windows, and never back", async () => {
    const feed = new PairFeed({ source: "a", destination: "b" });
    feed.look({ live: true, length: 60_000 });
    await wait(10);
    streams[0]?.push(message(base));
    const seen: number[] = [];
    for (let i = 0; i < 20; i++) {
      await wait(250);
      seen.push((feed.drawn.value?.to ?? 0) - base);
    }
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(seen.at(-1)).toBeGreaterThanOrEqual(5000);
    expect(new Set(seen).size).toBeLessThanOrEqual(7);
    feed.close();
  });

  test("a browser whose clock is wrong shows the time of the windows", async () => {
    vi.setSystemTime(base + 3600e3);
    windows.mockImplementation(async (_q: unknown, options: { onHeader: (h: Headers) => void }) => {
      options.onHeader(new Headers({ date: new Date(base).toUTCString() }));
      return answer(base - 60_000, base);
    });
    const feed = new PairFeed({ source: "a", destination: "b" });
    feed.look({ live: true, length: 60_000 });
    await wait(10);
    expect(feed.drawn.value?.to).toBe(base);
    feed.close();
  });

  test("nothing moves while paused, and collected windows are shown afterwards", async () => {
    const feed = new PairFeed({ source: "a", destination: "b" });
    feed.look({ live: true, length: 60_000 });
    await wait(10);
    feed.pause();
    const drawn = feed.drawn.value;
    for (let i = 0; i < 5; i++) {
      streams[0]?.push(message(base + i * 1000));
      await wait(1000);
    }
    expect(feed.drawn.value).toBe(drawn);
    expect(feed.paused.value).toBe(drawn?.to);
    windows.mockClear();
    feed.resume();
    expect(feed.drawn.value?.out.at(-1)?.start).toBe(base + 4000);
    expect(windows).not.toHaveBeenCalled();
    feed.close();
  });

  test("missed windows are queried after a broken stream", async () => {
    const feed = new PairFeed({ source: "a", destination: "b" });
    feed.look({ live: true, length: 60_000 });
    await wait(10);
    streams[0]?.push(message(base));
    await wait(100);
    streams[0]?.push(new Error("gone"));
    await wait(20_000);
    known = base + 20_000;
    windows.mockClear();
    streams.at(-1)?.push(message(base + 20_000));
    await wait(200);
    expect(windows).toHaveBeenCalled();
    const all = starts(feed.out.windows.list);
    for (let s = base / 1000; s <= base / 1000 + 20; s++) expect(all).toContain(s);
    feed.close();
  });

  test("everything is queried again when the server is back", async () => {
    const feed = new PairFeed({ source: "a", destination: "b" });
    feed.look({ live: false, from: base - 10_000, to: base });
    await wait(10);
    windows.mockClear();
    unreached("gone");
    reached();
    await wait(10);
    expect(windows).toHaveBeenCalledTimes(2);
    feed.close();
  });

  test("a failed query is shown and repeated", async () => {
    windows.mockRejectedValue("no archive");
    const feed = new PairFeed({ source: "a", destination: "b" });
    feed.look({ live: true, length: 60_000 });
    await wait(10);
    expect(feed.out.status.value.fault).toBe("no archive");
    windows.mockImplementation(async () => answer(base - 5000, base));
    await wait(3100);
    expect(feed.out.status.value.fault).toBeUndefined();
    expect(feed.drawn.value?.out.length).toBe(5);
    feed.close();
  });

  test("directions with different intervals share the longer step", async () => {
    windows.mockImplementation(async (q: { selection: { source: string }; points: number }) => {
      if (q.selection.source === "b") return answer(base - 60_000, base, 5000);
      return answer(base - 60_000, base, q.points < 30 ? 5000 : 1000);
    });
    const feed = new PairFeed({ source: "a", destination: "b" });
    feed.look({ live: true, length: 60_000 });
    await wait(10);
    expect(feed.drawn.value?.step).toBe(5000);
    expect(feed.out.windows.step).toBe(5000);
    feed.close();
  });

  test("a zoom is queried after a pause, and shows the old windows meanwhile", async () => {
    const feed = new PairFeed({ source: "a", destination: "b" });
    feed.look({ live: true, length: 60_000 });
    await wait(10);
    windows.mockClear();
    for (let i = 1; i < 5; i++) {
      feed.look({ live: false, from: base - 60_000 + i * 1000, to: base - i * 1000 });
      await wait(50);
      expect(feed.drawn.value?.from).toBe(base - 60_000 + i * 1000);
      expect(feed.drawn.value?.out.length).toBeGreaterThan(0);
    }
    expect(windows).not.toHaveBeenCalled();
    await wait(200);
    expect(windows).toHaveBeenCalledTimes(2);
    feed.close();
  });
});

test("a closed direction ignores answers", async () => {
  let give: (m: unknown) => void = () => undefined;
  windows.mockReset().mockImplementation(() => new Promise((done) => (give = done)));
  const d = new Direction({ source: "a", destination: "b" }, { changed: vi.fn(), newest: vi.fn(), serverTime: vi.fn(), gap: vi.fn() });
  const asked = d.ask(0, 1000, 1);
  d.close();
  give(answer(0, 1000));
  expect(await asked).toBe(0);
  expect(d.windows.list).toHaveLength(0);
});
