import { expect, it } from "vitest";
import { sceneOf, sideOf, type Dot, type Stroke } from "./graph-scene.ts";
import { lineHeight, writtenOf } from "./graph-text.ts";

const dot = (id: string, kind: Dot["kind"] = "agent"): Dot => ({ id, kind, label: id, title: id, weight: 0 });
const stroke = (from: string, to: string, label: string): Stroke => ({ id: `${from} ~ ${to}`, from, to, both: true, colour: "--heat-1", width: 2, dashed: false, label, title: "" });
const measure = (text: string): number => 7 * text.length;
const view = (zoom: number) => ({ zoom, x: 0, y: 0 });
const places = new Map([["left", { x: -300, y: 0 }], ["right", { x: 300, y: 0 }], ["top", { x: 0, y: -200 }], ["hop", { x: 0, y: 0 }]]);
const dots = [dot("left"), dot("right"), dot("top"), dot("hop", "unknown")];
const scene = (lit: string[] = []) => sceneOf({ dots, strokes: [stroke("left", "right", "there 1 ms\nback 2 ms"), stroke("left", "top", "3 ms")], lit: new Set(lit), ends: new Set() }, places);

it("writes names of the outermost hosts outside", () => {
  const whole = { left: -300, top: -200, right: 300, bottom: 200 };
  expect(scene().dots.map((d) => sideOf(d, whole))).toEqual(["left", "right", "above", "below"]);
});

it("writes all names where there is room", () => {
  expect(writtenOf(scene(), view(1), measure).map((w) => w.lines.join())).toEqual(["left", "right", "top", "hop"]);
});

it("leaves out labels of small hops without a name", () => {
  expect(writtenOf(scene(), view(0.3), measure).map((w) => w.lines.join())).toEqual(["left", "right", "top"]);
});

it("writes figures of highlighted strokes only, if they are long enough", () => {
  const across = (zoom: number) => writtenOf(scene(["left ~ right"]), view(zoom), measure).filter((w) => w.ground);
  expect(across(1)).toMatchObject([{ lines: ["there 1 ms", "back 2 ms"], at: { x: 0, y: 0 }, dy: -lineHeight, bright: true }]);
  expect(across(0.1)).toEqual([]);
});

it("writes no figure across the name of a highlighted dot, and no dimmed name across a figure", () => {
  const texts = (lit: string[]) => writtenOf(scene(lit), view(1), measure).map((w) => w.lines[0]);
  expect(texts(["left ~ right"])).toEqual(["left", "right", "top", "there 1 ms"]);
  expect(texts(["left ~ right", "hop"])).toEqual(["left", "right", "top", "hop"]);
});

it("writes nothing of an empty picture", () => {
  expect(writtenOf(sceneOf({ dots: [], strokes: [], lit: new Set(), ends: new Set() }, places), view(1), measure)).toEqual([]);
});
