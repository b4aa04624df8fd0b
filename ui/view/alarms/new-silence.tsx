// Silences alarms by their labels.
import { useState } from "preact/hooks";
import { matchersOf, silence } from "../../data/alarms.ts";
import { sentence } from "../../data/client.ts";
import { parseSpan, spanRule } from "../../data/length.ts";
import type { Alarm } from "../../gen/alarm_pb.ts";
import { Dialog } from "../../part/dialog.tsx";

/** NewSilence asks which alarms to silence, for how long and why. */
export function NewSilence({ alarm, onClose }: { alarm: Alarm | undefined; onClose(): void }) {
  const [matchers, setMatchers] = useState(alarm ? matchersOf(alarm) : "");
  const [length, setLength] = useState("2h");
  const [comment, setComment] = useState("");
  const act = async (): Promise<void> => {
    const ns = parseSpan(length);
    if (!ns || ns < 0) throw new Error(spanRule);
    await silence(matchers, ns, comment);
  };
  return (
    <Dialog title="Silence alarms" action="Silence" onAction={act} onClose={onClose} explain={sentence}>
      <p class="soft">Nobody is notified of alarms whose labels match all lines.</p>
      <label class="alarm-field">Matchers, one a line<textarea rows={4} value={matchers} placeholder={"alertname=loss\nsource=~north.*"} onInput={(e) => setMatchers(e.currentTarget.value)} /></label>
      <label class="alarm-field">For<input value={length} onInput={(e) => setLength(e.currentTarget.value)} /></label>
      <label class="alarm-field">Comment<input value={comment} maxLength={400} placeholder="Why" onInput={(e) => setComment(e.currentTarget.value)} /></label>
    </Dialog>
  );
}
