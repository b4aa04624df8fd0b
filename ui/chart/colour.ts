// Colour scales for figures. Lightness alone carries the order, so that they
// work for colour-blind users; on a dark page more is
// lighter, on a light page more is darker.

interface Tone {
  light: number;
  chroma: number;
  hue: number;
}

const steps = 256;
const nothing = { light: "#e9ece9", dark: "#242b2a" }; // as --empty
const calm = { light: "#dce9e3", dark: "#20352f" };

const sequentialDay = ramp({ light: 0.935, chroma: 0.075, hue: 108 }, { light: 0.3, chroma: 0.12, hue: 275 });
const sequentialNight = ramp({ light: 0.31, chroma: 0.085, hue: 285 }, { light: 0.94, chroma: 0.13, hue: 105 });
const lossDay = ramp({ light: 0.93, chroma: 0.09, hue: 92 }, { light: 0.42, chroma: 0.16, hue: 22 });
const lossNight = ramp({ light: 0.4, chroma: 0.07, hue: 70 }, { light: 0.82, chroma: 0.15, hue: 28 });

const at = (colours: string[], t: number): string => colours[Math.round(Math.min(1, Math.max(0, t)) * (steps - 1))] ?? "";

/** Colour at place t, 0 to 1, of the scale; NaN: no value. */
export function sequential(t: number, dark: boolean): string {
  if (Number.isNaN(t)) return dark ? nothing.dark : nothing.light;
  return at(dark ? sequentialNight : sequentialDay, t);
}

const leastLoss = 1e-4;
const mostLoss = 0.3;

/** Colour of a loss ratio: neutral for none, then logarithmic from 0.01 % to 30 %; NaN: no value. */
export function lossColour(share: number, dark: boolean): string {
  if (Number.isNaN(share)) return dark ? nothing.dark : nothing.light;
  if (!(share > 0)) return dark ? calm.dark : calm.light;
  return at(dark ? lossNight : lossDay, Math.log(share / leastLoss) / Math.log(mostLoss / leastLoss));
}

/** Black or white, whichever has more contrast to a colour such as "#0f6b66": at least 4.5 to 1. */
export const inkOn = (colour: string): string => (luminance(colour) > 0.179 ? "#000000" : "#ffffff");

/** Relative luminance of a colour such as "#0f6b66" (WCAG 2). */
export function luminance(colour: string): number {
  const [r, g, b] = channels(colour).map((c) => {
    const v = c / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0);
}

/** Red, green and blue, 0 to 255, of a colour such as "#0f6b66". */
export function channels(colour: string): [number, number, number] {
  const digits = colour.length < 7 ? colour.slice(1, 4).replace(/./g, "$&$&") : colour.slice(1, 7); // builds write #fff
  const n = parseInt(digits, 16);
  return [(n >> 16) & 255, (n >> 8) & 255, n & 255];
}

// Even steps of lightness in OKLCH (B. Ottosson, 2020); hues the short way around.
function ramp(from: Tone, to: Tone): string[] {
  return Array.from({ length: steps }, (_, i) => {
    const t = i / (steps - 1);
    const mix = (a: number, b: number) => a + (b - a) * t;
    // more chroma in the middle, where the gamut allows it
    const chroma = mix(from.chroma, to.chroma) + 0.04 * Math.sin(Math.PI * t);
    return written(mix(from.light, to.light), chroma, mix(from.hue, to.hue));
  });
}

function written(light: number, chroma: number, hue: number): string {
  let rgb = srgb(light, chroma, hue);
  // reduce chroma until sRGB can represent it
  while (chroma > 0 && rgb.some((c) => c < -1e-4 || c > 1.0001)) rgb = srgb(light, (chroma -= 0.004), hue);
  return `#${rgb.map((c) => Math.round(Math.min(1, Math.max(0, c)) * 255).toString(16).padStart(2, "0")).join("")}`;
}

function srgb(light: number, chroma: number, hue: number): number[] {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => (c <= 0.0031308 ? 12.92 * c : 1.055 * Math.max(0, c) ** (1 / 2.4) - 0.055));
}
