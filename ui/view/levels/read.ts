// The answer to a question, which grows while the server reads the archive.
import { useEffect, useState } from "preact/hooks";
import { sentence } from "../../data/client.ts";
import { readLevels, type LevelQuestion, type Levels } from "../../data/levels.ts";

const showMs = 250; // between two drawings of an answer that grows

/** An answer, as far as it has come. */
export interface Read extends Levels {
  done: boolean;
  fault: string | undefined;
}

const nothing: Read = { levels: [], found: 0, until: undefined, done: false, fault: undefined };

/** Asks once for each question, and again when turn changes: a report is too much to poll. */
export function useLevels(question: LevelQuestion, turn: number): Read {
  const [read, setRead] = useState(nothing);
  const key = JSON.stringify(question);
  useEffect(() => {
    const abort = new AbortController();
    setRead(nothing);
    void (async () => {
      let last: Levels = nothing;
      let shown = 0;
      try {
        for await (const levels of readLevels(question, abort.signal)) {
          last = levels;
          if (performance.now() - shown < showMs) continue;
          shown = performance.now();
          setRead({ ...last, levels: [...last.levels], done: false, fault: undefined });
        }
        if (!abort.signal.aborted) setRead({ ...last, done: true, fault: undefined });
      } catch (fault) {
        if (!abort.signal.aborted) setRead({ ...last, done: true, fault: sentence(fault) });
      }
    })();
    return () => abort.abort();
  }, [key, turn]);
  return read;
}
