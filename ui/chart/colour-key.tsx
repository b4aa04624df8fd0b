// The legend of a colour scale.
import { dark } from "../part/theme.tsx";
import "../style/chart.css";
import { lossColour, sequential } from "./colour.ts";

interface ColourKeyProps {
  scale: "sequential" | "loss";
  /** Name of the metric. */
  label: string;
  /** Labels at the ends; predefined for loss. */
  low?: string;
  high?: string;
}

/** ColourKey shows a colour scale with labels at its ends. */
export function ColourKey({ scale, label, low, high }: ColourKeyProps) {
  const night = dark.value;
  const colours = Array.from({ length: 9 }, (_, i) => (scale === "loss" ? lossColour(1e-4 * 3000 ** (i / 8), night) : sequential(i / 8, night)));
  return (
    <span class="colour-key" role="img" aria-label={scale === "loss" ? `${label}: from none over 0.01 % to 30 % and more` : `${label}: from ${low} to ${high}`}>
      <span>{label}</span>
      {scale === "loss" && <><i class="colour-key-one" style={{ background: lossColour(0, night) }} /><span>none</span></>}
      <span>{scale === "loss" ? "0.01 %" : low}</span>
      <i class="colour-key-bar" style={{ background: `linear-gradient(to right, ${colours.join(", ")})` }} />
      <span>{scale === "loss" ? "30 %" : high}</span>
    </span>
  );
}
