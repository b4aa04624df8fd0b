import { describe, expect, it } from "vitest";
import { extentOf, sceneOf, type Dot, type Stroke } from "./graph-scene.ts";
import { fitted, inGraph, onScreen, targetAt, zoomedAt, type Target } from "./graph-view.ts";

const dot = (id: string): Dot => ({ id, kind: "agent", label: id, title: id, weight: 0 });
const stroke = (id: string, from: string, to: string): Stroke => ({ id, from, to, both: false, colour: "--heat-1", width: 2, dashed: false, label: "", title: id });

// a -- b, and c below a
const places = new Map([["a", { x: 0, y: 0 }], ["b", { x: 400, y: 0 }], ["c", { x: 0, y: 200 }]]);
const scene = sceneOf({ dots: ["a", "b", "c"].map(dot), strokes: [stroke("ab", "a", "b"), stroke("ca", "c", "a"), stroke("ax", "a", "x")], lit: new Set(), ends: new Set() }, places);

describe("sceneOf", () => {
  it("leaves out strokes to dots that are not in the picture", () => {
    expect(scene.strokes.map((s) => s.stroke.id)).toEqual(["ab", "ca"]);
  });

  it("does not share its positions with the layout", () => {
    for (const { dot: { id }, at } of scene.dots) expect(at).not.toBe(places.get(id));
  });
});

describe("fitted", () => {
  it.each([["a wide screen", 900, 400], ["a narrow one", 300, 700], ["a tiny one", 40, 20]])("shows all dots in the middle of %s", (_, width, height) => {
    const whole = extentOf(scene.dots);
    if (!whole) throw new Error("no extent");
    const view = fitted(whole, { width, height });
    const points = scene.dots.map((d) => onScreen(view, d.at));
    for (const { x, y } of points) {
      expect(x).toBeGreaterThanOrEqual(0);
      expect(x).toBeLessThanOrEqual(width);
      expect(y).toBeGreaterThanOrEqual(0);
      expect(y).toBeLessThanOrEqual(height);
    }
    const xs = points.map((p) => p.x);
    expect((Math.min(...xs) + Math.max(...xs)) / 2).toBeCloseTo(width / 2);
  });

  it("does not enlarge one dot without limit", () => {
    expect(fitted({ left: 5, top: 5, right: 5, bottom: 5 }, { width: 1000, height: 1000 }).zoom).toBeLessThan(2);
  });

  it("has no extent without dots", () => {
    expect(extentOf([])).toBeUndefined();
  });
});

describe("zoomedAt", () => {
  const view = { zoom: 0.5, x: 30, y: -20 };

  it("keeps the point under the pointer", () => {
    const at = { x: 200, y: 100 };
    expect(inGraph(zoomedAt(view, 1.7, at), at).x).toBeCloseTo(inGraph(view, at).x);
    expect(inGraph(zoomedAt(view, 1.7, at), at).y).toBeCloseTo(inGraph(view, at).y);
  });

  it.each([["in", 1e6], ["out", 1e-6]])("has a limit when zooming %s", (_, factor) => {
    const end = zoomedAt(view, factor, { x: 0, y: 0 });
    expect(zoomedAt(end, factor, { x: 0, y: 0 })).toEqual(end);
  });
});

describe("targetAt", () => {
  const view = { zoom: 1, x: 100, y: 100 };
  const name = (target: Target | undefined): string | undefined => target && ("dot" in target ? target.dot.dot.id : target.stroke.stroke.id);

  it.each([
    ["a dot", 103, 96, "a"], ["a dot rather than its stroke", 112, 100, "a"], ["a stroke", 300, 102, "ab"], ["the nearer stroke", 101, 190, "ca"],
    ["nothing beside", 300, 130, undefined], ["nothing beyond the end of a stroke", 560, 100, undefined],
  ])("finds %s", (_, x, y, want) => {
    expect(name(targetAt(scene, view, { x, y }))).toBe(want);
  });
});
