// Acknowledges an alarm.
import { useState } from "preact/hooks";
import { acknowledge } from "../../data/alarms.ts";
import { sentence } from "../../data/client.ts";
import type { Alarm } from "../../gen/alarm_pb.ts";
import { Dialog } from "../../part/dialog.tsx";

/** Acknowledge asks for a comment. */
export function Acknowledge({ alarm, onClose }: { alarm: Alarm; onClose(): void }) {
  const [comment, setComment] = useState("");
  return (
    <Dialog title="Acknowledge this alarm?" action="Acknowledge" onAction={() => acknowledge(alarm.id, comment)} onClose={onClose} explain={sentence}>
      <p>{alarm.summary}.</p>
      <p class="soft">Notifications about it are not repeated.</p>
      <label class="alarm-field">Comment<input value={comment} maxLength={400} placeholder="What is being done" onInput={(e) => setComment(e.currentTarget.value)} /></label>
    </Dialog>
  );
}
