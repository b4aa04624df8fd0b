// Colour scales: ordered by lightness alone, readable in both themes.
import { describe, expect, it } from "vitest";
import { shade } from "./cells.ts";
import { channels, inkOn, lossColour, luminance, sequential } from "./colour.ts";

const contrast = (a: string, b: string) => {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p) as [number, number];
  return (x + 0.05) / (y + 0.05);
};
const places = Array.from({ length: 101 }, (_, i) => i / 100);
const scales = { sequential: (t: number, dark: boolean) => sequential(t, dark), loss: (t: number, dark: boolean) => lossColour(1e-4 * 3000 ** t, dark) };

for (const [name, colour] of Object.entries(scales)) {
  for (const dark of [false, true]) {
    describe(`${name}, ${dark ? "dark" : "light"}`, () => {
      const colours = places.map((t) => colour(t, dark));
      it("are colours", () => colours.forEach((c) => expect(c).toMatch(/^#[0-9a-f]{6}$/)));
      it("departs monotonically from the page's lightness", () => {
        const ls = colours.map(luminance);
        ls.forEach((l, i) => {
          const before = ls[i - 1];
          if (before !== undefined) expect(dark ? l >= before : l <= before, `at ${i} %`).toBe(true);
        });
      });
      it("has enough contrast for ten steps", () => expect(contrast(colours[0] ?? "", colours[100] ?? "")).toBeGreaterThan(4));
      it("is readable behind text", () => colours.forEach((c) => expect(contrast(c, inkOn(c))).toBeGreaterThanOrEqual(4.5)));
    });
  }
}

describe("what is not measured", () => {
  it("looks empty", () => {
    expect(sequential(NaN, false)).toBe(lossColour(NaN, false));
    expect(sequential(NaN, true)).toBe(lossColour(NaN, true));
  });
  it("distinguishes no loss from little loss", () => expect(lossColour(0, false)).not.toBe(lossColour(1e-9, false)));
});

describe("shade", () => {
  for (const [share, want] of [[1, 1], [0.1, 0.398], [0.001, 0.063]] as const) {
    it(`${share}`, () => expect(shade(share)).toBeCloseTo(want, 3));
  }
});

describe("channels", () => {
  it("reads long and short forms", () => {
    expect(channels("#0f6b66")).toEqual([15, 107, 102]);
    expect(channels("#fff")).toEqual([255, 255, 255]);
    expect(channels("#1a2")).toEqual([17, 170, 34]);
  });
});
