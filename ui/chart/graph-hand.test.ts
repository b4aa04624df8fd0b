import { afterEach, beforeEach, expect, it } from "vitest";
import { Hand } from "./graph-hand.ts";
import type { Point } from "./graph-layout.ts";

let element: HTMLElement;
let hand: Hand;
let done: string[];

beforeEach(() => {
  element = document.createElement("div");
  element.setPointerCapture = () => undefined;
  document.body.append(element);
  done = [];
  const at = (p: Point | undefined): string => (p ? `${p.x},${p.y}` : "nowhere");
  hand = new Hand(element, {
    grab: ({ x }) => x < 50, // a dot is at the left
    carry: (to) => done.push(`carry ${at(to)}`), release: (moved) => done.push(`release ${moved}`),
    pan: (x, y) => done.push(`pan ${x},${y}`), zoom: (factor, about) => done.push(`zoom ${factor.toFixed(2)} ${at(about)}`),
    click: (p) => done.push(`click ${at(p)}`), point: (p) => done.push(`point ${at(p)}`),
  });
});
afterEach(() => {
  hand.end();
  element.remove();
});

const send = (type: string, x: number, y: number, rest: PointerEventInit = {}): boolean =>
  element.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, pointerId: 1, pointerType: "mouse", bubbles: true, ...rest }));

it("clicks where the pointer hardly moves", () => {
  send("pointermove", 100, 100);
  send("pointerdown", 100, 100);
  send("pointermove", 102, 101);
  send("pointerup", 102, 101);
  expect(done).toEqual(["point 100,100", "click 102,101"]);
});

it("pans", () => {
  send("pointerdown", 100, 100);
  send("pointermove", 120, 90);
  send("pointermove", 125, 90);
  send("pointerup", 125, 90);
  expect(done).toEqual(["point nowhere", "pan 20,-10", "pan 5,0"]);
});

it("carries a dot, and tells a click from a move", () => {
  send("pointerdown", 10, 10);
  send("pointermove", 60, 10);
  send("pointerup", 60, 10);
  expect(done).toEqual(["point nowhere", "carry 60,10", "release true"]);
  done.length = 0;
  send("pointerdown", 10, 10);
  send("pointerup", 10, 10);
  expect(done).toEqual(["release false", "click 10,10"]);
});

it("zooms by two fingers around their middle, without a click", () => {
  const touch = { pointerType: "touch" };
  send("pointerdown", 100, 100, touch);
  send("pointerdown", 200, 100, { ...touch, pointerId: 2 });
  send("pointermove", 300, 100, { ...touch, pointerId: 2 });
  send("pointerup", 300, 100, { ...touch, pointerId: 2 });
  send("pointerup", 100, 100, touch);
  expect(done).toEqual(["point 100,100", "pan 50,0", "zoom 2.00 200,100"]);
});

it("zooms by the wheel at the pointer instead of scrolling the page", () => {
  const event = Object.assign(new WheelEvent("wheel", { deltaY: -100, cancelable: true }), { clientX: 30, clientY: 40 });
  element.dispatchEvent(event);
  expect(done).toEqual(["zoom 1.35 30,40"]);
  expect(event.defaultPrevented).toBe(true);
});

it("ignores other buttons", () => {
  send("pointerdown", 100, 100, { button: 2 });
  send("pointerup", 100, 100, { button: 2 });
  expect(done).toEqual([]);
});
