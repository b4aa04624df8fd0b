// The programs that the tests run.
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { resolve } from "node:path";

/** Folder of the whole project. */
export const root = resolve(import.meta.dirname, "../..");

/** A program that was built for the tests. */
export const program = (name: string): string => resolve(root, "bin", name);

/** How long a test waits for anything, ms. Only hangs take as long: it is no statement about how fast the page is. */
export const patience = 180_000;

/** Runs a program and returns its output; a failure is an error with both outputs. */
export function run(path: string, ...words: string[]): Promise<string> {
  return new Promise((done, fail) => {
    execFile(path, words, { timeout: patience, maxBuffer: 64 << 20 }, (error, output, errors) => {
      if (error) fail(new Error(`${path} ${words.join(" ")}: ${error.message}\n${output}${errors}`));
      else done(output);
    });
  });
}

/** Listens on a path or a port of 127.0.0.1; undefined if another does. */
function listen(where: string | number): Promise<ReturnType<typeof createServer> | undefined> {
  return new Promise((done) => {
    const server = createServer();
    server.on("error", () => done(undefined));
    server.listen(typeof where === "string" ? { path: where } : { port: where, host: "127.0.0.1" }, () => done(server));
  });
}

/** A TCP port of this machine on which nobody listens, and that no other test gets: as internal/free finds and reserves them. */
export async function freePort(): Promise<number> {
  const lowest = 10_000;
  const assigned = parseInt(readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8"), 10); // by the kernel, from here on
  for (;;) {
    const port = lowest + Math.floor(Math.random() * (assigned - lowest));
    const reservation = await listen(`\0pillion-port-${port}`.padEnd(108, "\0"));
    if (!reservation) continue;
    reservation.unref(); // it ends with this process
    const server = await listen(port);
    if (!server) continue;
    await new Promise((closed) => server.close(closed));
    return port;
  }
}

/** A program running in the background. */
export interface Running {
  /** Its output so far. */
  output(): string;
  /** Waits until its output matches. */
  says(pattern: RegExp): Promise<RegExpMatchArray>;
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
    async says(pattern) {
      return until(`${path} to say ${pattern}`, () => {
        if (over) throw new Error(`${path} has ended: ${text}`);
        return text.match(pattern) ?? undefined;
      });
    },
    async end() {
      if (!over) child.kill("SIGINT");
      await ended;
      process.off("exit", last);
    },
  };
}

/** Waits until a function returns a value, and returns it. */
export async function until<T>(what: string, look: () => T | undefined | false | Promise<T | undefined | false>): Promise<T> {
  const deadline = performance.now() + patience;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`timed out after ${patience} ms waiting for ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}
