// The programs that the tests run.
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { createServer } from "node:net";
import { resolve } from "node:path";

/** Folder of the whole project. */
export const root = resolve(import.meta.dirname, "../..");

/** A program that was built for the tests. */
export const program = (name: string): string => resolve(root, "bin", name);

/** Runs a program and returns its output; a failure is an error with both outputs. */
export function run(path: string, ...words: string[]): Promise<string> {
  return new Promise((done, fail) => {
    execFile(path, words, { timeout: 60_000, maxBuffer: 64 << 20 }, (error, output, errors) => {
      if (error) fail(new Error(`${path} ${words.join(" ")}: ${error.message}\n${output}${errors}`));
      else done(output);
    });
  });
}

/** A free TCP port of this machine. */
export function freePort(): Promise<number> {
  return new Promise((done, fail) => {
    const server = createServer();
    server.on("error", fail);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => (address && typeof address === "object" ? done(address.port) : fail(new Error("no port"))));
    });
  });
}

/** A program running in the background. */
export interface Running {
  /** Its output so far. */
  output(): string;
  /** Waits until its output matches, at most that many ms. */
  says(pattern: RegExp, limit?: number): Promise<RegExpMatchArray>;
  /** Sends SIGINT and waits until it has exited. */
  end(): Promise<void>;
}

/** Starts a program. */
export function start(path: string, ...words: string[]): Running {
  const child: ChildProcess = spawn(path, words, { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  let over = false;
  const read = (chunk: Buffer) => void (text += chunk.toString());
  child.stdout?.on("data", read);
  child.stderr?.on("data", read);
  const ended = new Promise<void>((done) => child.on("close", () => { over = true; done(); }));
  const last = () => void (over || child.kill("SIGKILL"));
  process.on("exit", last);
  return {
    output: () => text,
    async says(pattern, limit = 60_000) {
      return until(`${path} to say ${pattern}`, () => {
        if (over) throw new Error(`${path} has ended: ${text}`);
        return text.match(pattern) ?? undefined;
      }, limit);
    },
    async end() {
      if (!over) child.kill("SIGINT");
      await ended;
      process.off("exit", last);
    },
  };
}

/** Waits until a function returns a value, and returns it. */
export async function until<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>, limit = 20_000): Promise<T> {
  const deadline = performance.now() + limit;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`timed out after ${limit} ms waiting for ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}
