import { describe, expect, it } from "vitest";
import { apart, arrange, extend, type Point, type Shape } from "./graph-layout.ts";

/** Hosts behind access routers behind a core, all pairs traced. */
function network(hosts: number, perRouter: number): Shape {
  const access = (h: number) => Math.floor(h / perRouter);
  const ways: Shape["ways"] = [];
  for (let a = 0; a < hosts; a++) {
    for (let b = 0; b < hosts; b++) {
      if (a === b) continue;
      const between = access(a) === access(b) ? [`in${access(a)}`] : [`in${access(a)}`, `core${access(b) % 3}`, `out${access(b)}`];
      ways.push({ nodes: [`h${a}`, ...between, `h${b}`], to: `h${b}` });
    }
  }
  return shapeOf(ways);
}

function shapeOf(ways: Shape["ways"]): Shape {
  return { nodes: [...new Set(ways.flatMap((w) => w.nodes))].map((id) => ({ id, rim: id.startsWith("h") })), ways };
}

function closest(places: ReadonlyMap<string, Point>): number {
  const all = [...places.values()];
  let least = Infinity;
  all.forEach((p, i) => all.slice(i + 1).forEach((q) => (least = Math.min(least, Math.hypot(p.x - q.x, p.y - q.y)))));
  return least;
}

describe("arrange", () => {
  it.each([["two hosts", network(2, 1)], ["ten", network(10, 2)], ["two hundred", network(200, 8)], ["one way", shapeOf([{ nodes: ["h1", "r1", "r2", "h2"] }])], ["nothing", shapeOf([])]])("places %s without overlaps, and always the same", (_, shape) => {
    const places = arrange(shape);
    expect(places.size).toBe(shape.nodes.length);
    if (places.size > 1) expect(closest(places)).toBeGreaterThanOrEqual(apart * 0.999);
    const mixed: Shape = { nodes: [...shape.nodes].reverse(), ways: [...shape.ways].reverse() };
    const again = arrange(mixed);
    for (const [id, p] of places) expect(again.get(id)).toEqual(p);
  });

  it("puts hosts on the rim and routers inside", () => {
    const places = arrange(network(40, 4), 1.6);
    const far = ([, p]: [string, Point]) => Math.hypot(p.x / 1.6, p.y);
    const hosts = [...places].filter(([id]) => id.startsWith("h")).map(far);
    const routers = [...places].filter(([id]) => !id.startsWith("h")).map(far);
    expect(Math.max(...routers)).toBeLessThan(Math.min(...hosts));
    const core = [...places].filter(([id]) => id.startsWith("core")).map(far);
    const access = [...places].filter(([id]) => id.startsWith("in")).map(far);
    expect(Math.max(...core)).toBeLessThan(Math.max(...access));
  });

  it("places hosts behind one router next to each other", () => {
    // Names alone would mix them: odd hosts are behind one router, even ones behind another.
    const ways: Shape["ways"] = [];
    for (let a = 0; a < 12; a++) for (let b = 0; b < 12; b++) if (a !== b) ways.push({ nodes: [`h${a}`, ...(a % 2 === b % 2 ? [`r${a % 2}`] : [`r${a % 2}`, "core", `r${b % 2}`]), `h${b}`] });
    const places = arrange(shapeOf(ways));
    const turn = [...places].filter(([id]) => id.startsWith("h")).sort(([, p], [, q]) => Math.atan2(p.y, p.x) - Math.atan2(q.y, q.x)).map(([id]) => Number(id.slice(1)) % 2);
    expect(turn.filter((side, i) => side !== turn.at(i - 1)).length).toBe(2);
  });

  it("separates the ways of both directions", () => {
    const places = arrange(shapeOf([{ nodes: ["h1", "a", "b", "h2"] }, { nodes: ["h2", "c", "d", "h1"] }]));
    const side = (id: string) => Math.sign(places.get(id)?.y ?? 0);
    expect(side("a")).toBe(side("b"));
    expect(side("c")).toBe(side("d"));
    expect(side("a")).toBe(-side("c"));
  });

  it("places a path that was not reached", () => {
    const places = arrange({ nodes: [{ id: "h1", rim: true }, { id: "h2", rim: true }, { id: "r", rim: false }], ways: [{ nodes: ["h1", "r"], to: "h2" }] });
    expect(places.get("r")?.x).toBeCloseTo(0, -1);
  });
});

describe("extend", () => {
  it("keeps every node in its position", () => {
    const before = arrange(network(20, 4));
    const shape = network(26, 4);
    const after = extend(shape, before);
    for (const [id, p] of before) expect(after.get(id)).toEqual(p);
    expect(after.size).toBe(shape.nodes.length);
    expect(closest(after)).toBeGreaterThanOrEqual(apart * 0.999);
  });

  it("returns a node that reappears to its position", () => {
    const whole = arrange(network(8, 2));
    const part = extend(network(6, 2), whole);
    expect(part.size).toBeLessThan(whole.size);
    const again = extend(network(8, 2), whole);
    expect(again).toEqual(new Map([...again.keys()].map((id) => [id, whole.get(id)])));
  });

  it("leaves a router in its position that turns out to have more addresses, or an agent", () => {
    const kept = new Map([["h1", { x: -300, y: 0 }], ["router:1", { x: 10, y: 20 }], ["router:2", { x: 0, y: 90 }]]);
    const after = extend({ nodes: [{ id: "h1", rim: true }, { id: "agent:r", rim: true, was: ["router:0", "router:1", "router:2"] }], ways: [{ nodes: ["h1", "agent:r"] }] }, kept);
    expect(after).toEqual(new Map([["h1", { x: -300, y: 0 }], ["agent:r", { x: 10, y: 20 }]]));
  });

  it("puts a new router between its neighbours", () => {
    const kept = new Map([["h1", { x: -300, y: 0 }], ["h2", { x: 300, y: 0 }]]);
    expect(extend(shapeOf([{ nodes: ["h1", "r", "h2"] }]), kept).get("r")).toEqual({ x: 0, y: 0 });
  });
});
