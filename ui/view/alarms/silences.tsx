// The list of silences.
import { useState } from "preact/hooks";
import { expire } from "../../data/alarms.ts";
import { sentence } from "../../data/client.ts";
import { moment } from "../../data/quantity.ts";
import { millis } from "../../data/time.ts";
import type { Silence } from "../../gen/alarm_pb.ts";

/** SilenceTable lists silences, and ends them. */
export function SilenceTable({ silences, acts }: { silences: readonly Silence[]; acts: boolean }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Silences">
      <table class="cards">
        <thead><tr><th scope="col">Matchers</th><th scope="col">Until</th><th scope="col">By</th><th scope="col">Comment</th><th scope="col"><span class="hidden-text">Actions</span></th></tr></thead>
        <tbody>{silences.map((s) => (
          <tr key={s.id}>
            <th scope="row">{s.matchers.join(", ")}</th>
            <td data-name="Until">{moment(millis(s.ends) ?? 0).slice(0, 16)}</td>
            <td data-name="By">{s.by}</td>
            <td data-name="Comment" class="alarm-found">{s.comment || <span class="faint">–</span>}</td>
            <td class="alarm-actions">{acts && <Expire silence={s} />}</td>
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}

function Expire({ silence }: { silence: Silence }) {
  const [fault, setFault] = useState<string>();
  const [busy, setBusy] = useState(false);
  const act = async (): Promise<void> => {
    setBusy(true);
    try {
      await expire(silence.id);
    } catch (e) {
      setFault(sentence(e));
      setBusy(false);
    }
  };
  return <><button type="button" class="quiet" disabled={busy} aria-label={`Expire the silence of ${silence.matchers.join(", ")}`} onClick={() => void act()}>Expire</button>{fault && <span class="field-fault" role="alert">{fault}</span>}</>;
}
