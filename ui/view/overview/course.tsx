// The last minute of a pair as a sparkline.
import { courseEnds } from "../../chart/matrix-paint.ts";
import { Sparkline } from "../../chart/spark.tsx";
import { kept, type Measure } from "../../data/pair-table.ts";
import { pairTable } from "../../data/pairs.ts";

interface CourseProps {
  pair: number;
  measure: Measure;
  width: number;
  height: number;
  /** Name of a CSS property that holds the colour. */
  colour?: string;
}

/** Course draws the last minute without magnifying small changes. */
export function Course({ pair, measure, width, height, colour }: CourseProps) {
  const values = new Float32Array(kept);
  pairTable.history(pair, measure, values);
  const [min, max] = courseEnds(values) ?? [0, 1];
  return <Sparkline values={values} width={width} height={height} min={min} max={max} {...(colour && { colour })} />;
}
