// What an operator can do with a session, and the question before.
import { useState } from "preact/hooks";
import { operates } from "../../data/account.ts";
import { sentence, sessionClient } from "../../data/client.ts";
import { href } from "../../data/route.ts";
import { sessions } from "../../data/sessions.ts";
import type { Session } from "../../gen/session_pb.ts";
import { Dialog } from "../../part/dialog.tsx";
import { Icon, type IconName } from "../../part/icon.tsx";

type Act = "pause" | "resume" | "stop" | "delete";

const acts: Record<Act, { label: string; icon: IconName; danger?: boolean; title(name: string): string; says: string; call(name: string): Promise<unknown> }> = {
  pause: {
    label: "Pause", icon: "pause", title: (n) => `Pause ${n}?`,
    says: "Marking stops within a second. The rows stay, and so does the schedule; starts that fall into the pause are missed.",
    call: (name) => sessionClient.pauseSession({ name }),
  },
  resume: {
    label: "Resume", icon: "play", title: (n) => `Resume ${n}?`,
    says: "Marking begins again within seconds: destinations first, then sources.",
    call: (name) => sessionClient.resumeSession({ name }),
  },
  stop: {
    label: "Stop", icon: "stop", danger: true, title: (n) => `Stop ${n} for good?`,
    says: "Marking stops within a second, sources first. Planned runs are dropped. The rows stay. A session that was stopped cannot go on; copy it to measure the same again.",
    call: (name) => sessionClient.stopSession({ name }),
  },
  delete: {
    label: "Delete", icon: "trash", danger: true, title: (n) => `Delete ${n}?`,
    says: "The session leaves this list, and its name is free again. Its rows stay in the archive, and its past runs in the calendar.",
    call: (name) => sessionClient.deleteSession({ name }),
  },
};

/** What the state of a session allows. */
function allowed(state: string): Act[] {
  if (state === "ended") return ["delete"];
  if (state === "stopping") return [];
  return [state === "paused" ? "resume" : "pause", "stop"];
}

/** SessionActions are the buttons of a session; viewers see none. */
export function SessionActions({ session, after, words }: { session: Session; after?(act: Act): void; words?: boolean }) {
  const [asked, setAsked] = useState<Act>();
  const name = session.spec?.name ?? "";
  if (!operates.value) return null;
  const act = asked && acts[asked];
  const button = (a: Act) => (
    <button key={a} type="button" class={words ? (acts[a].danger ? "danger" : "") : "quiet icon-only"} aria-label={words ? undefined : `${acts[a].label} ${name}`} title={words ? undefined : acts[a].label} onClick={() => setAsked(a)}>
      <Icon name={acts[a].icon} />{words && acts[a].label}
    </button>
  );
  const style = words ? "button" : "button quiet icon-only";
  return (
    <div class="actions">
      {session.state !== "ended" && session.state !== "stopping" && (
        <a class={style} href={href(["sessions", name, "change"])} aria-label={words ? undefined : `Change ${name}`} title={words ? undefined : "Change"}><Icon name="edit" />{words && "Change"}</a>
      )}
      <a class={style} href={href(["sessions", "new"], { copy: name })} aria-label={words ? undefined : `Copy ${name}`} title={words ? undefined : "Copy"}><CopyIcon />{words && "Copy"}</a>
      {allowed(session.state).map(button)}
      {asked && act && (
        <Dialog title={act.title(name)} action={act.label} danger={act.danger ?? false} explain={sentence} onClose={() => setAsked(undefined)}
          onAction={async () => { await act.call(name); await sessions.refresh(); after?.(asked); }}>
          <p>{act.says}</p>
        </Dialog>
      )}
    </div>
  );
}

function CopyIcon() {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linejoin="round"><path d="M9 9h11v11H9zM15 9V4H4v11h5" /></svg>
  );
}
