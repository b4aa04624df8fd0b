// Following a stream of messages across connection losses.
import { note, sentence } from "./client.ts";

const retryMs = 500; // before the second attempt; doubles up to retryMaxMs
const retryMaxMs = 8000;

interface Follower<M> {
  /** Opens the stream. */
  open(signal: AbortSignal): AsyncIterable<M>;
  /** Receives each message. */
  message(m: M): void;
  /** A connection begins; earlier messages may be repeated. */
  begin?(): void;
  /** The stream broke and will be reopened. */
  broken?(why: string): void;
}

/**
 * Follows a stream until the returned function is called: reopens it after each
 * end, with growing pauses, and closes it while the page is hidden.
 */
export function follow<M>(f: Follower<M>): () => void {
  let stopped = false;
  let abort = new AbortController();
  let pause = retryMs;
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
        pause = retryMs;
        f.message(m);
      }
      if (!mine.aborted) f.broken?.("The server closed the stream.");
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
    pause = Math.min(pause * 2, retryMaxMs);
  };
  const seen = (): void => {
    if (document.hidden) abort.abort();
    else {
      pause = retryMs;
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
