// The programs that the tests run: where they are, and how they are started and ended.
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { createServer } from "node:net";
import { resolve } from "node:path";

/** Folder of the whole project. */
export const root = resolve(import.meta.dirname, "../..");

/** A program that was built for the tests. */
export const program = (name: string): string => resolve(root, "bin", name);

/** Runs a program to its end and gives what it wrote; its failure is an error with its words. */
export function run(path: string, ...words: string[]): Promise<string> {
  return new Promise((done, fail) => {
    execFile(path, words, { timeout: 60_000, maxBuffer: 64 << 20 }, (error, output, complaint) => {
      if (error) fail(new Error(`${path} ${words.join(" ")}: ${error.message}\n${output}${complaint}`));
      else done(output);
    });
  });
}

/** A TCP port of this machine that nobody uses now. */
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

/** A program that goes on running. */
export interface Running {
  /** All that it has written. */
  said(): string;
  /** Waits until it has written something that fits. */
  says(pattern: RegExp): Promise<RegExpMatchArray>;
  /** Ends it as Ctrl-C does, and waits until it has ended. */
  end(): Promise<void>;
}

/** Starts a program. */
export function start(path: string, ...words: string[]): Running {
  const child: ChildProcess = spawn(path, words, { stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  let over = false;
  const hear = (chunk: Buffer) => void (text += chunk.toString());
  child.stdout?.on("data", hear);
  child.stderr?.on("data", hear);
  const ended = new Promise<void>((done) => child.on("close", () => { over = true; done(); }));
  const last = () => void (over || child.kill("SIGKILL"));
  process.on("exit", last);
  return {
    said: () => text,
    async says(pattern) {
      return until(`${path} to say ${pattern}`, () => {
        if (over) throw new Error(`${path} has ended: ${text}`);
        return text.match(pattern) ?? undefined;
      }, 60_000);
    },
    async end() {
      if (!over) child.kill("SIGINT");
      await ended;
      process.off("exit", last);
    },
  };
}

/** Waits until a function gives something, and gives that. */
export async function until<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>, limit = 20_000): Promise<T> {
  const deadline = performance.now() + limit;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`waited ${limit} ms in vain for ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}
