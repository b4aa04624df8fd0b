// A confirmation dialog: the browser's own modal
// dialog, which traps the focus and restores it.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

interface DialogProps {
  title: string;
  children?: ComponentChildren;
  /** Label of the confirm button, a verb. */
  action: string;
  /** The action is destructive. */
  danger?: boolean;
  /** Label of the cancel button; default Cancel. */
  stay?: string;
  /** Performs the action. If it rejects, the error is shown and the dialog stays open. */
  onAction(): void | Promise<void>;
  onClose(): void;
  /** The text of an error. */
  explain?(fault: unknown): string;
}

/** Dialog asks for confirmation and explains the consequences. */
export function Dialog({ title, children, action, danger, stay = "Cancel", onAction, onClose, explain = String }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null);
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<string>();
  const id = useId();
  useEffect(() => {
    const dialog = box.current;
    const before = document.activeElement;
    if (dialog && !dialog.open) dialog.showModal();
    return () => {
      dialog?.close();
      // the browser restores the focus only while the dialog is in the page
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const act = async (): Promise<void> => {
    setBusy(true);
    setFault(undefined);
    try {
      await onAction();
      onClose();
    } catch (error) {
      setFault(explain(error));
      setBusy(false);
    }
  };
  return (
    <dialog class="dialog" ref={box} aria-labelledby={`${id}-title`} aria-describedby={`${id}-text`}
      onCancel={(e) => { e.preventDefault(); if (!busy) onClose(); }}
      onClick={(e) => { if (e.target === box.current && !busy) onClose(); }}>
      <div class="dialog-body">
        <h2 id={`${id}-title`}>{title}</h2>
        <div class="dialog-text" id={`${id}-text`}>{children}</div>
        {fault && <p class="field-fault" role="alert">{fault}</p>}
        <div class="dialog-actions">
          <button type="button" autofocus disabled={busy} onClick={onClose}>{stay}</button>
          <button type="button" class={danger ? "danger" : "main"} disabled={busy} onClick={() => void act()}>{action}</button>
        </div>
      </div>
    </dialog>
  );
}
