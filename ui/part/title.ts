// The title of the browser's tab.
import { useEffect } from "preact/hooks";

/** useTitle names the tab after what is shown, as long as it is shown. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Pillion`;
    return () => void (document.title = "Pillion");
  }, [title]);
}
