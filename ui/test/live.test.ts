// A session from the form to its live charts, loss as it happens, a schedule, events,
// and a restart of the server.
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { figure, launch, number, open } from "./browser.ts";
import { until } from "./command.ts";
import { raise, twoHosts, type Lab } from "./lab.ts";

let lab: Lab;
let browser: Browser;
beforeAll(async () => {
  [lab, browser] = await Promise.all([raise(twoHosts, "noc", ["a", "b"]), launch()]);
});
afterAll(async () => {
  await browser?.close();
  await lab?.down();
});

/** Waits until a chart has changed that many times. */
async function moves(page: Page, chart: string, times: number): Promise<void> {
  const canvas = page.getByRole("figure", { name: chart }).locator("canvas").first();
  await canvas.waitFor();
  const picture = () => canvas.evaluate((c) => (c as HTMLCanvasElement).toDataURL());
  let before = await picture();
  for (let n = 0; n < times; n++) {
    await until(`${chart} to move`, async () => (await picture()) !== before);
    before = await picture();
  }
}

/** Adds an agent in a field for several names. */
async function choose(page: Page, field: string, agent: string): Promise<void> {
  const box = page.getByRole("combobox", { name: field, exact: true });
  await box.fill(agent);
  await box.press("Enter");
}

test("a session that is created in the form shows its live chart", async () => {
  const { page, clean, close } = await open(browser, lab, { role: "operator", path: "#/sessions" });
  await page.getByRole("link", { name: "New session" }).first().click();
  const name = page.getByRole("textbox", { name: "Name", exact: true });
  const begin = page.getByRole("button", { name: "Start", exact: true });
  await name.fill("Bad Name");
  await page.getByText(/"Bad Name" cannot be a session's name|lowercase letters/i).first().waitFor();
  await choose(page, "Sources", "a");
  await choose(page, "Destinations", "b");
  await expect.poll(() => begin.isDisabled(), { message: "a bad name cannot start" }).toBe(true);
  await name.fill("from-form");
  // The plan of the server is shown before anything runs.
  const plan = page.getByRole("complementary", { name: "Plan" });
  await expect.poll(() => plan.innerText()).toMatch(/bytes in each marked/);
  expect(await plan.innerText()).toMatch(/read and remove marks of packets from/);
  expect(await lab.pillion("session", "list")).not.toContain("from-form");
  await begin.click();
  await until("the session to run", async () => /from-form\s+running/.test(await lab.pillion("session", "list")));
  await expect.poll(() => page.url(), { message: "two hosts: straight to their charts" }).toContain("#/pair/a/b");
  await moves(page, "Delay a → b", 3);
  await expect.poll(async () => number(await figure(page, "a → b", /Median/))).toBeCloseTo(5, 0);
  clean();
  await close();
});

/** Makes sure that a session is running, whether or not the form has created one. */
async function running(): Promise<void> {
  if (!/\brunning\b/.test(await lab.pillion("session", "list"))) {
    await lab.pillion("session", "create", "--name", "made", "--from", "a", "--to", "b", "--both");
  }
  await until("a session to run", async () => /\brunning\b/.test(await lab.pillion("session", "list")));
}

test("loss in the network shows", async () => {
  await running();
  const { page, clean, close } = await open(browser, lab, { role: "viewer", path: "#/pair/a/b" });
  await until("calm", async () => /^0 ?%/.test(await figure(page, "a → b", /^Loss/)));
  // The page itself records what it shows, and when.
  await page.evaluate(() => {
    const seen: [number, string][] = [];
    Object.assign(globalThis, { seenLoss: seen });
    const look = () => {
      const region = document.querySelector('[aria-label="Figures a → b"]') ?? [...document.querySelectorAll("section")].find((s) => s.textContent?.includes("a → b") && s.querySelector("dt"));
      const term = [...(region?.querySelectorAll("dt") ?? [])].find((t) => t.textContent?.startsWith("Loss"));
      const text = term?.nextElementSibling?.textContent ?? "";
      if (text !== seen.at(-1)?.[1]) seen.push([Date.now(), text]);
      requestAnimationFrame(look);
    };
    look();
  });
  const times: number[] = [];
  for (const round of [1, 2, 3]) {
    await lab.change("a-b", "--from", "a", "--loss", "30%");
    const changed = Date.now();
    const shown = await until("loss to be shown", () => page.evaluate((since) => {
      const seen = (globalThis as unknown as { seenLoss: [number, string][] }).seenLoss;
      return seen.find(([at, text]) => at >= since && parseFloat(text) > 5)?.[0];
    }, changed));
    times.push(shown - changed);
    await lab.change("a-b", "--from", "a", "--loss", "0");
    await until(`calm after round ${round}`, async () => /^0 ?%/.test(await figure(page, "a → b", /^Loss/)));
  }
  console.log(`loss was shown ${times.join(", ")} ms after the link changed`);
  clean();
  await close();
});

test("a scheduled session starts while the list is open", async () => {
  const { page, clean, close } = await open(browser, lab, { role: "operator", path: "#/sessions" });
  const start = new Date(Math.ceil(Date.now() / 1000) * 1000 + 15_000);
  await lab.pillion("session", "create", "--name", "later", "--from", "b", "--to", "a", "--start", start.toISOString(), "--duration", "10m");
  const of = (group: string) => page.getByRole("region", { name: group, exact: true }).getByRole("link", { name: "later", exact: true });
  await of("Scheduled").waitFor();
  await of("Running").waitFor();
  expect(Date.now()).toBeGreaterThanOrEqual(start.getTime() - 1000);
  clean();
  await close();
});

test("events come in as they happen", async () => {
  await running();
  const { page, clean, close } = await open(browser, lab, { role: "viewer", path: "#/events" });
  await expect.poll(() => page.getByText(/a has joined/).count()).toBeGreaterThan(0);
  await lab.stop("b", "--kill");
  await expect.poll(() => page.getByText(/lost contact with b/).count()).toBeGreaterThan(0);
  await lab.start("b");
  await page.getByText(/b is connected again after/).first().waitFor();
  expect(await page.getByRole("alert").allInnerTexts(), "the feed shows no error").toEqual([]);
  clean();
  await close();
});

test("the page resumes when the server is back", async () => {
  await running();
  const { page, forgive, clean, close } = await open(browser, lab, { role: "viewer", path: "#/pair/a/b" });
  await moves(page, "Delay a → b", 2);
  await page.evaluate(() => Object.assign(globalThis, { notReloaded: true }));
  forgive(/ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE|Failed to load resource|answer 50/);
  await lab.stop("noc", "--kill");
  const banner = page.getByRole("alert").filter({ hasText: /No answer from the server/ });
  await banner.waitFor();
  await page.waitForTimeout(2000);
  await lab.start("noc");
  await banner.waitFor({ state: "detached" });
  await moves(page, "Delay a → b", 3);
  expect(await page.evaluate(() => "notReloaded" in globalThis)).toBe(true);
  // Rows that the agents spooled meanwhile are stored, too.
  const rows = async () => Number((await lab.pillion("query", "-o", "csv", "SELECT count(*) FROM flows WHERE agent = 'b' AND proto = 'icmp'")).match(/\d+/)?.[0]);
  await expect.poll(rows).toBeGreaterThan(5);
  clean();
  await close();
});

/** Attaches a program that ends the chain ahead of all others at egress: bpf(2), load and attach; the device has it until it goes. */
const endChain = (device: string): string => `
import ctypes, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
def bpf(command, attributes):
    result = libc.syscall(321, command, ctypes.create_string_buffer(attributes), len(attributes)) # x86-64
    if result < 0: raise OSError(ctypes.get_errno(), "bpf")
    return result
code, license = ctypes.create_string_buffer(struct.pack("<QQ", 0xb7, 0x95)), ctypes.create_string_buffer(b"GPL") # r0 = 0; exit
load = struct.pack("<IIQQIIQII16s", 3, 2, ctypes.addressof(code), ctypes.addressof(license), 0, 0, 0, 0, 0, b"neighbour")
bpf(8, struct.pack("<IIIIIIQ", socket.if_nametoindex("${device}"), bpf(5, load), 47, 8, 0, 0, 0))
`;

test("a program that hides Pillion's is named in the session, and in an event", async () => {
  await running();
  const name = await until("a session from a to b to run", async () => /^(\S+) +running +a\b/m.exec(await lab.pillion("session", "list"))?.[1]);
  const { page, clean, close } = await open(browser, lab, { role: "viewer", path: `#/sessions/${name}` });
  const tasks = page.getByRole("region", { name: "Tasks" });
  await tasks.getByText("source on").first().waitFor();
  await lab.exec("a", "python3", "-c", endChain("b"));
  const began = Date.now();
  await tasks.getByText(/hidden by neighbour \(\d+\): packets on b do not reach Pillion's program/).first().waitFor();
  console.log(`the session named it ${Date.now() - began} ms after it began`);
  await page.evaluate(() => void (location.hash = "#/events"));
  await page.getByText(/the source on a, device b, is hidden by neighbour/).first().waitFor();
  clean();
  await close();
});
