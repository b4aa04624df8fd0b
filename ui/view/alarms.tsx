// Alarms of the rules in the server's configuration, and silences.
import { useState } from "preact/hooks";
import { limited, may } from "../data/account.ts";
import { alarms, attention, inEffect, silences, sorted } from "../data/alarms.ts";
import { useResource } from "../data/resource.ts";
import type { Alarm } from "../gen/alarm_pb.ts";
import { Notice } from "../part/notice.tsx";
import { useTitle } from "../part/title.ts";
import "../style/alarms.css";
import { Acknowledge } from "./alarms/acknowledge.tsx";
import { NewSilence } from "./alarms/new-silence.tsx";
import { SilenceTable } from "./alarms/silences.tsx";
import { AlarmTable } from "./alarms/table.tsx";

/** AlarmsView lists alarms; operators acknowledge and silence them. */
export function AlarmsView() {
  useTitle("Alarms");
  const { value, fault } = useResource(alarms);
  const muted = useResource(silences);
  const [taking, setTaking] = useState<Alarm>();
  const [muting, setMuting] = useState<Alarm | "any">();
  const acts = may("operator");
  const all = value.value;
  const quiet = inEffect(muted.value.value ?? []);
  return (
    <div class="stack alarms">
      <header class="row spread">
        <h1>Alarms</h1>
        {acts && <button type="button" onClick={() => setMuting("any")}>New silence</button>}
      </header>
      {fault.value && <p class="field-fault" role="alert">{fault.value}</p>}
      {!all && !fault.value && <p class="soft" role="status">Loading alarms…</p>}
      {all && !all.length && <Notice title="No alarms">No alarm{limited.value && " of the hosts and pairs that this token sees"} is active, and none has ended in the last 15 minutes.</Notice>}
      {all && all.length > 0 && (
        <section class="panel" aria-labelledby="alarm-list">
          <header><h2 id="alarm-list">Active and recent</h2><span class="soft">{attention.value} {attention.value === 1 ? "needs" : "need"} attention</span></header>
          <AlarmTable alarms={sorted(all)} acts={acts} onTake={setTaking} onMute={setMuting} />
        </section>
      )}
      {quiet.length > 0 && (
        <section class="panel" aria-labelledby="silence-list">
          <header><h2 id="silence-list">Silences</h2><span class="soft">Nobody is notified of alarms that match.</span></header>
          <SilenceTable silences={quiet} acts={acts} />
        </section>
      )}
      {taking && <Acknowledge alarm={taking} onClose={() => setTaking(undefined)} />}
      {muting && <NewSilence alarm={muting === "any" ? undefined : muting} onClose={() => setMuting(undefined)} />}
    </div>
  );
}
