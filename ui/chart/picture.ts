// Export of the charts in an element as one image.
import { clock, moment } from "../data/quantity.ts";
import type { Range } from "./plot.ts";
import type { Stage } from "./stage.ts";

/** A legend entry in an image. */
export interface Name {
  label: string;
  /** Name of a CSS property. */
  colour?: string;
  dash?: number[];
  /** An area rather than a line. */
  area?: boolean;
  /** Colours of a scale. */
  scale?: string[];
}

/** A chart to export. */
interface Pictured {
  stage: Stage;
  title: string;
  height: number;
  range: Range;
  names: Name[];
  /** Shown in an empty chart. */
  empty?: string;
}

const shown = new WeakMap<Element, () => Pictured>();

/** expose registers the chart of an element for export. */
export const expose = (element: Element, chart: () => Pictured): void => void shown.set(element, chart);

const edge = 20;
const family = 'system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

/** picture draws the charts within an element as a PNG, in at least double resolution. */
export async function picture(charts: HTMLElement, title: string, subtitle: string): Promise<Blob> {
  const found = [...charts.querySelectorAll(".chart")].flatMap((e) => {
    const chart = shown.get(e);
    return chart ? [chart()] : [];
  });
  const ratio = Math.max(2, window.devicePixelRatio);
  const inner = Math.max(360, ...found.map((c) => c.stage.box.clientWidth));
  const canvas = document.createElement("canvas");
  const ctx = canvas.getContext("2d");
  if (!ctx) throw new Error("draw the picture: this browser gives no canvas");
  const sheet = new Sheet(ctx, ratio, inner, getComputedStyle(charts));
  const heads = found.map((c) => sheet.names(c, 0, false));
  const top = edge + 26 + (subtitle ? 22 : 0) + 8;
  const height = top + found.reduce((sum, c, i) => sum + 22 + (heads[i] ?? 0) + c.height + 18, 0) + 24;
  canvas.width = Math.round((inner + 2 * edge) * ratio);
  canvas.height = Math.round(height * ratio);
  sheet.begin(height);
  sheet.text(title, edge, edge + 16, "650 18px", "--ink");
  if (subtitle) sheet.text(subtitle, edge, edge + 40, "13px", "--ink-soft");
  let y = top;
  for (const [i, chart] of found.entries()) {
    sheet.text(chart.title, edge, y + 14, "650 14px", "--ink");
    sheet.names(chart, y + 22, true);
    y += 22 + (heads[i] ?? 0);
    ctx.drawImage(await chart.stage.image(inner, chart.height, ratio), edge, y, inner, chart.height);
    if (chart.empty) sheet.text(chart.empty, edge + inner / 2, y + chart.height / 2, "13px", "--ink-soft", "center");
    y += chart.height + 18;
  }
  sheet.text(footer(found.map((c) => c.range)), edge, height - 14, "12px", "--ink-faint");
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("draw the picture: it is too large for this browser"))), "image/png");
  });
}

/** The range of all charts as text. */
function footer(ranges: Range[]): string {
  if (ranges.length === 0) return "";
  const from = Math.min(...ranges.map((r) => r.from));
  const to = Math.max(...ranges.map((r) => r.to));
  const sameDay = moment(from).slice(0, 10) === moment(to).slice(0, 10);
  return `${moment(from)} to ${sameDay ? clock(to) : moment(to)}, ${Intl.DateTimeFormat().resolvedOptions().timeZone}. Measured by Pillion.`;
}

// Text and swatches on the canvas, in CSS pixels.
class Sheet {
  constructor(readonly ctx: CanvasRenderingContext2D, readonly ratio: number, readonly width: number, readonly style: CSSStyleDeclaration) {}

  private colour(name: string): string {
    return this.style.getPropertyValue(name).trim();
  }

  begin(height: number): void {
    this.ctx.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.ctx.fillStyle = this.colour("--panel");
    this.ctx.fillRect(0, 0, this.width + 2 * edge, height);
  }

  text(words: string, x: number, y: number, font: string, colour: string, align: CanvasTextAlign = "left"): void {
    const { ctx } = this;
    ctx.font = `${font} ${family}`;
    ctx.fillStyle = this.colour(colour);
    ctx.textAlign = align;
    ctx.textBaseline = "alphabetic";
    ctx.fillText(words, x, y);
  }

  /** names draws the legend from y down, or only measures its height. */
  names(chart: Pictured, y: number, draw: boolean): number {
    const { ctx } = this;
    ctx.font = `12px ${family}`;
    let x = edge;
    let row = 0;
    for (const name of chart.names) {
      const swatch = name.scale ? 80 : 18;
      const wide = swatch + 6 + ctx.measureText(name.label).width + 18;
      if (x > edge && x + wide > edge + this.width) {
        x = edge;
        row++;
      }
      if (draw) {
        this.swatch(name, x, y + row * 18 + 8, swatch);
        this.text(name.label, x + swatch + 6, y + row * 18 + 12, "12px", "--ink-soft");
      }
      x += wide;
    }
    return chart.names.length > 0 ? (row + 1) * 18 + 4 : 0;
  }

  private swatch(name: Name, x: number, y: number, width: number): void {
    const { ctx } = this;
    if (name.scale) {
      name.scale.forEach((colour, i, all) => {
        ctx.fillStyle = colour;
        ctx.fillRect(x + (i * width) / all.length, y - 5, width / all.length + 0.5, 10);
      });
      return;
    }
    ctx.save();
    ctx.strokeStyle = this.colour(name.colour ?? "--ink");
    ctx.lineWidth = name.area ? 9 : 2;
    ctx.globalAlpha = name.area ? 0.28 : 1;
    ctx.setLineDash(name.dash ?? []);
    ctx.beginPath();
    ctx.moveTo(x, y);
    ctx.lineTo(x + width, y);
    ctx.stroke();
    ctx.restore();
  }
}
