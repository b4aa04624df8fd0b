// Following a stream of messages over losses of the connection.
import { note, sentence } from "./client.ts";

const first = 500; // ms until the second try; doubles up to longest
const longest = 8000;

export interface Follower<M> {
  /** Opens the stream anew. */
  open(signal: AbortSignal): AsyncIterable<M>;
  /** Takes each message. */
  message(m: M): void;
  /** A connection begins: what came before may come again. */
  begin?(): void;
  /** The stream broke, and will be opened again. */
  broken?(why: string): void;
}

/**
 * Follows a stream until the returned function is called: opens it again after each
 * end, with growing pauses, and lets go of it while the page is hidden.
 */
export function follow<M>(f: Follower<M>): () => void {
  let stopped = false;
  let abort = new AbortController();
  let pause = first;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running = false;

  const run = async (): Promise<void> => {
    if (stopped || running || document.hidden) return;
    running = true;
    abort = new AbortController();
    const mine = abort.signal;
    try {
      f.begin?.();
      for await (const m of f.open(mine)) {
        if (mine.aborted) break;
        pause = first;
        f.message(m);
      }
      if (!mine.aborted) f.broken?.("The server ended the stream.");
    } catch (fault) {
      if (!mine.aborted) {
        note(fault);
        f.broken?.(sentence(fault));
      }
    }
    running = false;
    if (stopped || document.hidden) return;
    clearTimeout(timer);
    timer = setTimeout(run, pause);
    pause = Math.min(pause * 2, longest);
  };
  const seen = (): void => {
    if (document.hidden) abort.abort();
    else {
      pause = first;
      void run();
    }
  };
  document.addEventListener("visibilitychange", seen);
  void run();
  return () => {
    stopped = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
    abort.abort();
  };
}
