// The pair, its session, filter and exports.
import { useState } from "preact/hooks";
import { copyText } from "../../data/clipboard.ts";
import { href, refine } from "../../data/route.ts";
import type { Session } from "../../gen/session_pb.ts";
import { Badge } from "../../part/badge.tsx";
import { Icon } from "../../part/icon.tsx";
import { look, swapped, widen, type FlowWords } from "./look.ts";

interface HeadProps {
  /** Sessions with rows, those with the most packets first. */
  measured: readonly string[];
  /** All sessions of the pair. */
  sessions: readonly Session[];
  onPicture: () => Promise<void> | void;
  onTable: () => void;
  /** There is something to export. */
  full: boolean;
}

/** Head shows the pair and its controls. */
export function Head({ measured, sessions, onPicture, onTable, full }: HeadProps) {
  const { source, destination, session } = look.value;
  const names = [...new Set([...measured, ...sessions.map((s) => s.spec?.name ?? "")].filter(Boolean))];
  if (session && !names.includes(session)) names.push(session);
  const shown = session || measured[0] || names[0];
  const state = sessions.find((s) => s.spec?.name === shown);
  return (
    <header class="pair-head">
      <div class="pair-title">
        <h1><a href={href(["agent", source])}>{source}</a><span class="pair-arrow" aria-hidden="true"> → </span><span class="hidden-text"> to </span><a href={href(["agent", destination])}>{destination}</a></h1>
        <a class="button quiet icon-only" href={swapped()} aria-label={`Show ${destination} to ${source}`} title="Swap hosts"><Icon name="swap" /></a>
      </div>
      <div class="row">
        <label class="pair-session">Session
          <select value={session} onChange={(e) => refine({ session: e.currentTarget.value || undefined })}>
            <option value="">{measured[0] ? `Most packets (${measured[0]}${measured.length > 1 ? ", …" : ""})` : "Any"}</option>
            {names.map((n) => <option key={n} value={n}>{n}</option>)}
          </select>
        </label>
        {state && <a class="pair-state" href={href(["sessions", shown ?? ""])} title={state.reason || `Session ${shown}`}><Badge state={state.state} /></a>}
      </div>
      <div class="pair-take">
        <CopyLink />
        <Act icon="image" word="PNG" title="Save the charts as an image" disabled={!full} act={onPicture} />
        <Act icon="download" word="CSV" title="Save the shown windows of both directions" disabled={!full} act={onTable} />
      </div>
      <Narrowed />
    </header>
  );
}

const parts: { key: keyof FlowWords; word: string }[] = [
  { key: "proto", word: "protocol" }, { key: "src", word: "source address" }, { key: "sport", word: "source port" }, { key: "dst", word: "destination address" }, { key: "dport", word: "destination port" },
];

/** The flow filter of the view, with buttons to remove its parts. */
function Narrowed() {
  const { selection, narrowed, source, destination } = look.value;
  if (!narrowed) return null;
  return (
    <div class="pair-narrowed" role="group" aria-label="Flow filter">
      <span class="soft">{source} → {destination}, only</span>
      {parts.map(({ key, word }) => selection[key] !== undefined && (
        <button key={key} type="button" class="pair-chip" aria-label={`Remove ${word} ${selection[key]}`} title="Remove" onClick={() => widen([key])}>
          {word} <b>{selection[key]}</b> <Icon name="close" />
        </button>
      ))}
      <button type="button" class="quiet" onClick={() => widen()}>All flows</button>
      <span class="faint small">and its reverse flow</span>
    </div>
  );
}

function Act({ icon, word, title, disabled, act }: { icon: "image" | "download"; word: string; title: string; disabled: boolean; act: () => Promise<void> | void }) {
  const [fault, setFault] = useState<string>();
  const run = async () => {
    try {
      setFault(undefined);
      await act();
    } catch (e) {
      setFault(e instanceof Error ? e.message : String(e));
    }
  };
  return <><button type="button" class="quiet" title={title} disabled={disabled} onClick={() => void run()}><Icon name={icon} />{word}</button>{fault && <span class="field-fault" role="alert">{fault}</span>}</>;
}

function CopyLink() {
  const [said, setSaid] = useState("");
  const copy = async () => {
    setSaid((await copyText(location.href)) ? "Copied" : "Copy it from the address bar");
    setTimeout(() => setSaid(""), 2500);
  };
  return (
    <>
      <button type="button" class="quiet" title="Copy a link to this view" onClick={() => void copy()}><Icon name="link" />{said || "Copy link"}</button>
      <span class="hidden-text" role="status">{said}</span>
    </>
  );
}
