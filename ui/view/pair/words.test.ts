import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { SessionSchema } from "../../gen/session_pb.ts";
import { figures } from "../../data/window.fixture.ts";
import { noHistogram, shownBy, type Corrected } from "../../data/window.ts";
import { clockWords, correctedWords } from "./clock.ts";
import { flowAddress, look, swapped } from "./look.ts";
import { subject } from "./strip.tsx";
import { measures } from "./why.tsx";
import { route } from "../../data/route.ts";

describe("clocks in words", () => {
  test.each([
    ["one clock", [figures(0)], "one clock", "good", false],
    ["small", [figures(0, { clockError: 1e5 })], "±100 µs, shown", "soft", true],
    ["larger than the delay", [figures(0, { clockError: 16e9 })], "±16.0 s, more than the delay: only changes of delay are meaningful", "warning", false],
    ["unknown", [figures(0, { clockError: NaN })], "Clock error unknown", "warning", false],
    ["sometimes unknown", [figures(0, { clockError: 1e5 }), figures(1000, { clockError: NaN })], "Unknown for part of the time", "soft", true],
  ])("%s", (_name, list, text, level, drawn) => {
    const words = clockWords(list);
    expect(words?.text).toContain(text);
    expect(words).toMatchObject({ level, drawn });
  });
  test("negative delays are an offset", () => {
    const f = figures(0, { clockError: 1e9 });
    f.delay = { ...f.delay, min: -5 };
    expect(clockWords([f])?.text).toContain("due to the clock offset");
  });
  test("no text without measurements", () => expect(clockWords([])).toBeUndefined());
});

describe("addresses", () => {
  const at = (query: string) => (route.value = { words: ["pair", "a", "b"], query: new URLSearchParams(query) });
  test("contain the whole view", () => {
    at("session=s&range=1h&src=1.2.3.4&dport=443&proto=tcp&show=back&by=host&sort=p99.up&find=x&axis=log");
    expect(look.value).toMatchObject({
      source: "a", destination: "b", selection: { session: "s", src: "1.2.3.4", dport: 443, proto: "tcp" }, narrowed: true,
      span: { live: true, length: 3600e3 }, show: "back", by: "host", sort: { key: "p99", ascending: true }, find: "x", log: true, frozen: undefined,
    });
    at("range=1h&paused=1&to=5000");
    expect(look.value.frozen).toBe(5000);
    at("sport=99999&by=nonsense");
    expect(look.value).toMatchObject({ selection: { sport: undefined }, by: "flow", narrowed: false });
  });
  test("the other direction swaps the ends of a flow", () => {
    at("src=1.1.1.1&dport=443");
    expect(swapped()).toBe("#/pair/b/a?dst=1.1.1.1&sport=443");
    at("show=back");
    expect(flowAddress({ src: "2.2.2.2", dst: "1.1.1.1", sport: 443, dport: 5 })).toBe("#/pair/a/b?show=back&src=1.1.1.1&dst=2.2.2.2&sport=5&dport=443");
  });
});

describe("the windows of the strip", () => {
  const drawn = { from: 0, to: 10_000, step: 1000, now: 10_000, out: [], back: [] };
  test("the last complete window while live", () => expect(subject([figures(8000), figures(9000), figures(10_000)], drawn, true)?.figures.start).toBe(9000));
  test("not the growing one", () => {
    const long = { ...drawn, step: 10_000, from: 0, to: 40_000, now: 36_000 };
    expect(subject([figures(20_000), figures(30_000)], long, true)).toMatchObject({ length: 10_000, figures: { start: 20_000 } });
  });
  test("no outdated window", () => expect(subject([figures(0)], { ...drawn, to: 60_000, now: 60_000, from: 0 }, true)).toBeUndefined());
  test("the whole fixed range", () => expect(subject([figures(1000), figures(2000)], drawn, false)).toMatchObject({ length: 10_000, figures: { packets: 40 } }));
});

describe("which session measures a pair", () => {
  const session = (spec: object, pairs: { source: string; destination: string }[] = []) => create(SessionSchema, { spec: { name: "s", ...spec }, pairs });
  test.each([
    ["by its pairs", session({ sources: ["*"], destinations: ["*"] }, [{ source: "a", destination: "c" }]), false],
    ["paused, by name", session({ sources: ["a"], destinations: ["b"] }), true],
    ["paused, the other way", session({ sources: ["b"], destinations: ["a"] }), false],
    ["paused, both ways", session({ sources: ["b"], destinations: ["a"], both: true }), true],
    ["paused, all", session({ sources: ["*"], destinations: ["b"] }), true],
  ])("%s", (_name, s, yes) => expect(measures(s, "a", "b")).toBe(yes));
});

describe("corrected clocks", () => {
  const delay = { count: 20, min: 1e6, mean: 1.1e6, p50: 1.1e6, p90: 1.2e6, p99: 1.3e6, max: 1.4e6, histogram: noHistogram };
  const corrected = (c: Partial<Corrected> = {}): Corrected => ({ delay, offset: 4e6, bound: 9e5, skew: 50e3, skewBound: 120, drift: 25e3, resolution: 64, segment: 0, ...c });
  const window = (start: number, c?: Partial<Corrected>) => shownBy("corrected", figures(start, c ? { corrected: corrected(c) } : {}));
  const words = (...list: ReturnType<typeof window>[]) => correctedWords(list);
  test("offset, drift and bound", () => {
    expect(words(window(0, {}), window(1000, { bound: 8e5 }))).toEqual({
      level: "soft", drawn: true,
      text: "Corrected by the estimated clock offset, last 4.00 ms, drifting 50.00 ± 0.12 ppm. Absolute delays are known to within ±900 µs, shown as a band around the median; changes of delay more accurately.",
    });
  });
  test("steps and resolution", () => {
    const text = words(window(0, {}), window(1000, { segment: 60e3, resolution: 131072 }), window(2000, { segment: 60e3 }))?.text;
    expect(text).toContain("was set, or its rate changed, once.");
    expect(words(window(0, { resolution: 131072 }))?.text).toContain("resolution of 131 µs");
  });
  test("one direction", () => expect(words(window(0, { bound: NaN }))).toMatchObject({ level: "warning", drawn: false, text: expect.stringContaining("offset is unknown") }));
  test("no estimate", () => expect(words(window(0))).toMatchObject({ level: "warning", drawn: false, text: expect.stringContaining("No clock offset is known") }));
  test("for part of the time", () => expect(words(window(0), window(1000, {}))?.text).toContain("for part of the time"));
  test("no delay without a correction", () => expect(window(0).delay.count).toBe(0));
  test("no text without measurements", () => expect(correctedWords([])).toBeUndefined());
});
