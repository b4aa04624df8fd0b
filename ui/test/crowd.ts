// A server with many simulated agents.
import { freePort, program, start } from "./command.ts";
import { site, type Site } from "./lab.ts";

export interface Crowd extends Site {
  end(): Promise<void>;
}

/** Starts a server and joins that many simulated agents. */
export async function gather(agents: number, ...flags: string[]): Promise<Crowd> {
  const port = await freePort();
  const running = start(program("crowd"), "--program", program("pillion-server"), "--http", `localhost:${port}`, "--agents", String(agents), ...flags);
  const [, url, file] = await running.says(/^server: (\S+), token in (\S+)$/m);
  await running.says(/^all \d+ agents are up/m); // each enrols and gets its labels
  if (!url || !file) throw new Error(`crowd says ${running.output()}`);
  return { ...site(url, file), end: () => running.end() };
}
