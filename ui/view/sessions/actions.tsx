// Actions on a session, with their confirmation.
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
    says: "Marking stops within a second. Rows and schedule are kept; starts during the pause are missed.",
    call: (name) => sessionClient.pauseSession({ name }),
  },
  resume: {
    label: "Resume", icon: "play", title: (n) => `Resume ${n}?`,
    says: "Marking resumes within seconds, destinations first.",
    call: (name) => sessionClient.resumeSession({ name }),
  },
  stop: {
    label: "Stop", icon: "stop", danger: true, title: (n) => `Stop ${n} permanently?`,
    says: "Marking stops within a second, sources first. Planned runs are cancelled; rows are kept. A stopped session cannot be resumed, but it can be copied.",
    call: (name) => sessionClient.stopSession({ name }),
  },
  delete: {
    label: "Delete", icon: "trash", danger: true, title: (n) => `Delete ${n}?`,
    says: "Removes the session and frees its name. Its rows stay in the archive and its past runs in the calendar.",
    call: (name) => sessionClient.deleteSession({ name }),
  },
};

/** The actions that a state allows. */
function allowed(state: string): Act[] {
  if (state === "ended") return ["delete"];
  if (state === "stopping") return [];
  return [state === "paused" ? "resume" : "pause", "stop"];
}

/** SessionActions shows the buttons of a session to operators. */
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
        <a class={style} href={href(["sessions", name, "change"])} aria-label={words ? undefined : `Edit ${name}`} title={words ? undefined : "Edit"}><Icon name="edit" />{words && "Edit"}</a>
      )}
      <a class={style} href={href(["sessions", "new"], { copy: name })} aria-label={words ? undefined : `Copy ${name}`} title={words ? undefined : "Copy"}><Icon name="copy" />{words && "Copy"}</a>
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
