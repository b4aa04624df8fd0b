// A lab with Pillion's server and agents in it, for the tests of one file.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, program, run } from "./command.ts";

export type Role = "viewer" | "operator" | "admin";

/** Names of the tokens of tests. */
export const users: Record<Role, string> = { viewer: "wall-screen", operator: "noc-desk", admin: "chief" };

/** A server that the page can be fetched from. */
export interface Site {
  url: string;
  /** The token of a role. */
  token(role: Role): Promise<string>;
  /** Runs the command line as an administrator. */
  pillion(...words: string[]): Promise<string>;
}

/** A running lab. */
export interface Lab extends Site {
  name: string;
  /** Runs a command in a host. */
  exec(host: string, ...command: string[]): Promise<string>;
  /** Changes the faults of an emulated link. */
  change(link: string, ...flags: string[]): Promise<void>;
  /** Stops or starts the server or agent on a host. */
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
        const text = await pillion("token", "create", users[role], "--role", role, "-o", "json");
        secret = /pt_[a-z0-9]+/.exec(text)?.[0];
        if (secret === undefined) throw new Error(`token create: no secret in ${text}`);
        made.set(role, secret);
      }
      return secret;
    },
  };
}

let count = 0;

/** Hosts of the programs of a fleet, as in lab/fleet.yaml. */
export interface Fleet {
  hubs: string[];
  servers: string[];
  shards: string[][];
  coordination: string;
}

/** Builds a lab of a YAML text without name and service, and starts a server or a fleet, and agents. */
export async function raise(text: string, server: string | Fleet, agents: string[]): Promise<Lab> {
  const name = `pg${process.pid.toString(36)}${(count++).toString(36)}`;
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "pillion-page-"));
  const file = join(folder, "lab.yaml");
  const service = { ...(typeof server === "string" ? { server } : { fleet: server }), agents, forward: port };
  writeFileSync(file, `name: ${name}\n${text}\nservice: ${JSON.stringify(service)}\n`);
  const agent = program("pillion-agent");
  const last = () => void spawnSync(agent, ["lab", "down", name]);
  process.on("exit", last); // also after a failed test
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

/** The same with a fleet of two servers, behind the router m. */
export const twoServers = `
hosts: {a: {run: ["ping -q -i 0.02 10.77.1.2"]}, b: {}, m: {forward: true}, n1: {}, n2: {}, hub: {}, ch: {}, zk: {}}
links:
  - {ends: [a, b], emulate: {seed: 7, delay: 5ms, jitter: 200us, keep_order: true}}
  - {ends: [m, a]}
  - {ends: [m, b]}
  - {ends: [m, n1]}
  - {ends: [m, n2]}
  - {ends: [m, hub]}
  - {ends: [m, ch]}
  - {ends: [m, zk]}`;

const flow = (to: string, options: string): string =>
  `"sleep 1; while :; do iperf3 -c ${to} -t 600 ${options} >/dev/null 2>&1; sleep 1; done"`;

/** Three sites around three routers, with pings and flows between them. */
export const threeSites = `
hosts:
  berlin: {run: ["iperf3 -s >/dev/null", "ping -q -i 0.02 10.77.2.1", "ping -q -i 0.05 10.77.3.1", ${flow("10.77.2.1", "-u -l 900 -b 1.5M")}]}
  lisbon: {run: ["iperf3 -s >/dev/null", "ping -q -i 0.05 10.77.3.1", ${flow("10.77.3.1", "-b 2M -l 4K")}]}
  oslo: {run: ["iperf3 -s >/dev/null", "ping -q -i 0.05 10.77.1.1", ${flow("10.77.1.1", "-u -l 600 -b 500k")}]}
  r1: {forward: true}
  r2: {forward: true}
  r3: {forward: true}
  noc: {}
links:
  - ends: [berlin, r1]
  - {ends: [lisbon, r2], emulate: {seed: 7, delay: 9ms, jitter: 2ms, keep_order: true, loss: 0.3%}}
  - {ends: [oslo, r3], emulate: {seed: 8, delay: 14ms, jitter: 600us, keep_order: true, loss: 0.02%}}
  - ends: [r1, r2]
  - ends: [r2, r3]
  - ends: [r1, r3]
  - ends: [noc, r1]
`;
