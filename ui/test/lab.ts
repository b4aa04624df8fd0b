// A lab with Pillion's server and agents in it, for the tests of one file.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, program, run } from "./command.ts";

export type Role = "viewer" | "operator" | "admin";

/** A server that the page can be fetched from. */
export interface Site {
  url: string;
  /** The token of a role. */
  token(role: Role): Promise<string>;
  /** Runs the command line as an administrator. */
  pillion(...words: string[]): Promise<string>;
}

/** A lab that is up. */
export interface Lab extends Site {
  name: string;
  /** Runs a command in a host. */
  exec(host: string, ...command: string[]): Promise<string>;
  /** Changes the faults of an emulated link. */
  change(link: string, ...flags: string[]): Promise<void>;
  /** Ends the server or agent on a host, and starts it again. */
  stop(host: string, ...flags: string[]): Promise<void>;
  start(host: string): Promise<void>;
  down(): Promise<void>;
}

/** Reaches a server by its URL and the file of its administrator's token. */
export function site(url: string, tokenFile: string): Site {
  const server = new URL(url).host;
  const made = new Map<Role, string>([["admin", readFileSync(tokenFile, "utf8").trim()]]);
  const pillion = (...words: string[]) => run(program("pillion"), "--server", server, "--token-file", tokenFile, ...words);
  return {
    url, pillion,
    async token(role) {
      let secret = made.get(role);
      if (secret === undefined) {
        const text = await pillion("token", "create", `${role}-of-tests`, "--role", role, "-o", "json");
        secret = /pt_[a-z0-9]+/.exec(text)?.[0];
        if (secret === undefined) throw new Error(`token create: no secret in ${text}`);
        made.set(role, secret);
      }
      return secret;
    },
  };
}

let count = 0;

/** Builds a lab of a YAML text without name and service, and starts a server and agents. */
export async function raise(text: string, server: string, agents: string[]): Promise<Lab> {
  const name = `pg${process.pid.toString(36)}${(count++).toString(36)}`;
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "pillion-page-"));
  const file = join(folder, "lab.yaml");
  writeFileSync(file, `name: ${name}\n${text}\nservice: {server: ${server}, agents: [${agents.join(", ")}], forward: ${port}}\n`);
  const agent = program("pillion-agent");
  const last = () => void spawnSync(agent, ["lab", "down", name]);
  process.on("exit", last); // also when a test gave up
  try {
    await run(agent, "lab", "up", file);
  } finally {
    rmSync(folder, { recursive: true });
  }
  const lab = (...words: string[]) => run(agent, "lab", ...words);
  return {
    ...site(`http://localhost:${port}`, `/run/pillion/forward/${port}.token`),
    name,
    exec: (host, ...command) => lab("exec", "--lab", name, host, "--", ...command),
    change: async (link, ...flags) => void (await lab("change", link, "--lab", name, ...flags)),
    stop: async (host, ...flags) => void (await lab("stop", host, "--lab", name, ...flags)),
    start: async (host) => void (await lab("start", host, "--lab", name)),
    async down() {
      await lab("down", name);
      process.off("exit", last);
    },
  };
}

/** Two hosts with a link of 5 ms and a steady ping between them, and the server. */
export const twoHosts = `
hosts: {a: {run: ["ping -q -i 0.02 10.77.1.2"]}, b: {}, noc: {}}
links:
  - {ends: [a, b], emulate: {seed: 7, delay: 5ms, jitter: 200us, keep_order: true}}
  - {ends: [noc, a]}
  - {ends: [noc, b]}`;
