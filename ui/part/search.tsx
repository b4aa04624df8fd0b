// A search field.
import { useEffect, useRef, useState } from "preact/hooks";

const restMs = 200; // without typing, after which the search runs

/** Search reports its text once the user stops typing. */
export function Search({ label, placeholder, value, onSearch }: { label: string; placeholder: string; value: string; onSearch: (text: string) => void }) {
  const [text, setText] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => setText(value), [value]);
  const type = (typed: string): void => {
    setText(typed);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onSearch(typed.trim()), restMs);
  };
  return <input type="search" aria-label={label} placeholder={placeholder} value={text} onInput={(e) => type(e.currentTarget.value)} />;
}
