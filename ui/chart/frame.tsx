// The frame of every chart over time: title, legend, the element
// that takes keys, the tooltip, and the description for screen readers.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import { clock, moment, unbroken } from "../data/quantity.ts";
import { dark } from "../part/theme.tsx";
import "../style/chart.css";
import { dayName } from "./axis.ts";
import { Gestures } from "./gesture.ts";
import { marksAt, marksIn, paintMarks } from "./mark.ts";
import { expose, type Name } from "./picture.ts";
import type { Mark, TimeChartProps } from "./plot.ts";
import { type Drawing, type View, shapeOf, Stage } from "./stage.ts";

/** The position of the cursor. */
export interface Pointed {
  time: number;
  /** Axis value at the cursor; undefined while the cursor is in another chart of the group. */
  value?: number;
}

interface FrameProps extends Pick<TimeChartProps, "title" | "marks" | "onRange" | "group" | "height" | "empty">, Omit<Drawing, "paint"> {
  /** Paints on top of the lines. */
  paint?: (ctx: CanvasRenderingContext2D, view: View) => void;
  /** There is nothing to draw. */
  bare: boolean;
  /** Lines with their values at a time; undefined: the latest. */
  legend: (pointed: Pointed | undefined) => ComponentChildren;
  /** Content of the tooltip besides marks. */
  tip?: (pointed: Pointed) => ComponentChildren;
  /** The legend of the exported image. */
  names: () => Name[];
  /** Shown instead of the time without a cursor; default "latest". */
  when?: string;
  /** The latest values as text. */
  latest: () => string;
}

interface Place extends Pointed {
  /** Place in the chart, and the size of the chart, CSS pixels. */
  left: number;
  top: number;
  width: number;
  height: number;
  marks: Mark[];
}

const nothing = "No data in this period.";

/** Frame frames one chart. */
export function Frame(props: FrameProps) {
  const { title, height = 220, range } = props;
  const box = useRef<HTMLDivElement>(null);
  const stage = useRef<Stage | undefined>(undefined);
  const gestures = useRef<Gestures | undefined>(undefined);
  const pointed = useSignal<Place | undefined>(undefined);
  const now = useRef(props);
  now.current = props;
  const keys = useId();
  const figure = useRef<HTMLElement>(null);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const onCursor = (at: { time: number; left: number; top: number } | undefined) => {
      pointed.value = at && place(at, now.current, stage.current);
    };
    const made = new Stage(element, drawing(now.current), { width: element.clientWidth, height, group: props.group, onCursor });
    stage.current = made;
    gestures.current = new Gestures(made.plot, () => now.current.range, (r) => now.current.onRange?.(r));
    if (figure.current) expose(figure.current, () => pictured(now.current, made));
    const watch = new ResizeObserver(() => made.resize(element.clientWidth, now.current.height ?? 220));
    watch.observe(element);
    return () => {
      watch.disconnect();
      gestures.current?.end();
      made.destroy();
      stage.current = undefined;
    };
  }, [props.group, shapeOf(drawing(props))]);

  useLayoutEffect(() => {
    stage.current?.update(drawing(props));
    gestures.current?.follow();
  });
  useLayoutEffect(() => stage.current?.resize(box.current?.clientWidth ?? 0, height), [height]);
  const night = dark.value;
  useEffect(() => stage.current?.recolour(), [night]);

  return (
    <figure class="chart" ref={figure}>
      <figcaption class="chart-head">
        <span class="chart-title">{title}</span>
        <Legend pointed={pointed} legend={props.legend} when={props.when ?? "latest"} long={range.to - range.from > 20 * 3600e3} />
      </figcaption>
      <div class="chart-body">
        <div class="chart-stage" ref={box} tabIndex={0} role="application" aria-roledescription="chart over time" aria-label={useSpoken(props, box)}
          aria-describedby={keys} style={{ minHeight: `${height}px` }} onKeyDown={(e) => gestures.current?.key(e)} />
        {props.bare && <p class="chart-empty">{props.empty ?? nothing}</p>}
        <Tip pointed={pointed} tip={props.tip} />
        <p class="chart-keys" id={keys}>Arrow keys: pan. + and −: zoom. Home: go to now. Double-click: zoom out.</p>
      </div>
      <MarkList marks={marksIn(props.marks ?? [], range)} />
    </figure>
  );
}

const drawing = (props: FrameProps): Drawing => ({
  ...props,
  format: props.bare ? () => "" : props.format,
  paint(ctx, view) {
    props.paint?.(ctx, view);
    paintMarks(ctx, view, props.marks ?? []);
  },
});

const pictured = ({ title, height = 220, range, names, bare, empty }: FrameProps, stage: Stage) =>
  ({ stage, title, height, range, names: names(), ...(bare ? { empty: empty ?? nothing } : {}) });

function place(at: { time: number; left: number; top: number }, props: FrameProps, stage: Stage | undefined): Place {
  const width = stage?.plot.over.clientWidth ?? 1;
  const near = ((props.range.to - props.range.from) / Math.max(1, width)) * 6;
  return {
    time: at.time, left: at.left + (stage?.plot.over.offsetLeft ?? 0), top: Math.max(0, at.top), width: stage?.plot.width ?? 1, height: stage?.plot.height ?? 1,
    // the other charts of the group have no cursor height
    value: stage?.plot.over.matches(":hover") && at.top >= 0 ? stage.valueAt(at.top) : undefined,
    marks: marksAt(props.marks ?? [], at.time, near),
  };
}

function Legend({ pointed, legend, when, long }: { pointed: { value: Place | undefined }; legend: FrameProps["legend"]; when: string; long: boolean }) {
  const at = pointed.value;
  return (
    <span class="chart-legend">
      <span class={long ? "chart-when long" : "chart-when"}>{at ? (long ? `${dayName(at.time)} ${clock(at.time).slice(0, 5)}` : clock(at.time)) : when}</span>
      {legend(at)}
    </span>
  );
}

function Tip({ pointed, tip }: { pointed: { value: Place | undefined }; tip: FrameProps["tip"] }) {
  const at = pointed.value;
  if (!at) return null;
  const words = at.value === undefined ? undefined : tip?.(at);
  if (!words && at.marks.length === 0) return null;
  return (
    <div class="chart-tip" aria-hidden="true" style={besides(at)}>
      {words}
      {at.marks.slice(0, 5).map((m) => <p class={`chart-tip-mark ${m.level}`}><b>{m.level}</b> {clock(m.time)} {unbroken(m.text)}</p>)}
      {at.marks.length > 5 && <p class="faint">and {at.marks.length - 5} more</p>}
    </div>
  );
}

/** The place of a tooltip: on the side of the cursor with more room. */
function besides({ left, top, width, height }: Place) {
  return {
    ...(left > width / 2 ? { right: `${width - left + 12}px` } : { left: `${left + 12}px` }),
    ...(top > height / 2 ? { bottom: `${height - top + 12}px` } : { top: `${top + 12}px` }),
  };
}

function MarkList({ marks }: { marks: Mark[] }) {
  if (marks.length === 0) return null;
  const most = 50;
  return (
    <ul class="hidden-text" aria-label="Events in this period">
      {marks.slice(-most).map((m, i) => <li key={i}>{m.level}, {moment(m.time)}: {m.text}</li>)}
      {marks.length > most && <li>and {marks.length - most} more</li>}
    </ul>
  );
}

/** The chart as text, updated every 5 s at most, because screen readers announce changes. */
function useSpoken(props: FrameProps, box: { current: HTMLElement | null }): string {
  const now = useRef(props);
  now.current = props;
  const first = useRef(spoken(props));
  useEffect(() => {
    const timer = setInterval(() => box.current?.setAttribute("aria-label", spoken(now.current)), 5000);
    return () => clearInterval(timer);
  }, []);
  return first.current;
}

function spoken(props: FrameProps): string {
  const { title, range, bare, empty } = props;
  const words = bare ? empty ?? nothing : props.latest();
  return `${title}, ${moment(range.from)} to ${moment(range.to)}. ${words}`;
}
