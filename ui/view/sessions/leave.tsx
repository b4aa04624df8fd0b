// Asks for confirmation before unsaved input is discarded.
import { useEffect, useState } from "preact/hooks";
import { Dialog } from "../../part/dialog.tsx";

/** LeaveGuard intercepts links, and the closing of the tab, while there is unsaved input. */
export function LeaveGuard({ typed, forget }: { typed: boolean; forget(): void }) {
  const [target, setTarget] = useState<string>();
  useEffect(() => {
    if (!typed) return;
    const unload = (e: BeforeUnloadEvent): void => e.preventDefault();
    const click = (e: MouseEvent): void => {
      const link = e.target instanceof Element ? e.target.closest("a[href^='#']") : null;
      const to = link?.getAttribute("href");
      if (!to || to === "#main" || e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
      e.preventDefault();
      e.stopPropagation();
      setTarget(to);
    };
    addEventListener("beforeunload", unload);
    document.addEventListener("click", click, true);
    return () => {
      removeEventListener("beforeunload", unload);
      document.removeEventListener("click", click, true);
    };
  }, [typed]);
  if (!target) return null;
  const leave = (): void => {
    forget();
    location.hash = target;
  };
  return (
    <Dialog title="Discard your input?" action="Discard" stay="Keep editing" danger onAction={leave} onClose={() => setTarget(undefined)}>
      <p>The form has unsaved input. Nothing has been started or changed.</p>
    </Dialog>
  );
}
