// Signing in, what each role sees, and navigation by keyboard alone.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { controls, launch, open } from "./browser.ts";
import { raise, twoHosts, type Lab, users } from "./lab.ts";

let lab: Lab;
let browser: Browser;
beforeAll(async () => {
  [lab, browser] = await Promise.all([raise(twoHosts, "noc", ["a", "b"]), launch()]);
  await lab.pillion("session", "create", "--name", "first", "--from", "a", "--to", "b", "--both");
});
afterAll(async () => {
  await browser?.close();
  await lab?.down();
});

const views = ["#/", "#/pair/a/b", "#/agent/a", "#/topology", "#/sessions", "#/sessions/first", "#/events"];

test("a wrong token is rejected with a message", async () => {
  const { page, clean, forgive, close } = await open(browser, lab);
  forgive(/401/);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect.poll(() => page.getByRole("alert").textContent()).toContain("Enter a token");
  await page.getByLabel("Token", { exact: true }).fill("pt_nobody");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect.poll(() => page.getByRole("alert").textContent()).toMatch(/token/i);
  expect(await page.getByRole("navigation", { name: "Views" }).count()).toBe(0);
  clean();
  await close();
});

test("a token signs in, is kept as selected, and signs out", async () => {
  const { page, context, clean, close } = await open(browser, lab);
  const secret = await lab.token("operator");
  await page.getByLabel("Token", { exact: true }).fill(secret);
  await page.getByLabel("Stay signed in").check();
  await page.keyboard.press("Enter");
  await page.getByRole("navigation", { name: "Views" }).waitFor();
  await page.getByText(users.operator).waitFor();
  const later = await context.newPage();
  await later.goto(lab.url);
  await later.getByRole("navigation", { name: "Views" }).waitFor();
  await later.close();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token", { exact: true }).waitFor();
  await page.reload();
  await page.getByLabel("Token", { exact: true }).waitFor();
  expect(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }))).not.toContain(secret);
  clean();
  await close();
});

test("a revoked token signs out and shows why", async () => {
  const text = await lab.pillion("token", "create", "short", "--role", "viewer", "-o", "json");
  const secret = /pt_[a-z0-9]+/.exec(text)?.[0] ?? "";
  const { page, forgive, close } = await open(browser, { ...lab, token: async () => secret }, { role: "viewer" });
  forgive(/401|unauthenticated/i);
  await page.getByRole("navigation", { name: "Views" }).waitFor();
  await lab.pillion("token", "revoke", "short"); // its calls in progress end, too
  await page.getByLabel("Token", { exact: true }).waitFor();
  await expect.poll(() => page.getByRole("alert").textContent()).toMatch(/signed out.*(revoked|ended)/i);
  await close();
});

test("a viewer sees no button for operators", async () => {
  const forbidden = /new session|create|change|edit|pause session|resume|stop|delete|remove|revoke|trace now|trace again|label/i;
  const found: Record<string, string[]> = {};
  for (const role of ["viewer", "operator"] as const) {
    const { page, clean, visit, close } = await open(browser, lab, { role });
    found[role] = [];
    for (const view of views) {
      await visit(view);
      const own = [...await controls(page), ...await page.getByRole("link", { name: forbidden }).allTextContents()];
      found[role].push(...own.filter((t) => forbidden.test(t) && !/^Theme/.test(t)).map((t) => `${view}: ${t}`));
    }
    clean();
    await close();
  }
  expect(found.operator, "an operator has some").not.toEqual([]);
  expect(found.viewer).toEqual([]);
});

test("the server refuses a viewer who calls it directly", async () => {
  const token = await lab.token("viewer");
  for (const [method, body] of [
    ["SessionService/StopSession", { name: "first" }], ["SessionService/PauseSession", { name: "first" }],
    ["SessionService/CreateSession", { spec: { name: "mine", sources: ["a"], destinations: ["b"] } }],
    ["TopologyService/Trace", { source: "a", destination: "b" }], ["ServerService/CreateToken", { name: "more", role: "admin" }],
  ] as const) {
    const answer = await fetch(`${lab.url}/pillion.v1.${method}`, {
      method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
    });
    expect(answer.status, method).toBe(403);
  }
});

test("every view is reached by keyboard alone", async () => {
  const { page, clean, close } = await open(browser, lab);
  await page.getByLabel("Token", { exact: true }).waitFor();
  const focused = () => page.evaluate(() => {
    const e = document.activeElement;
    return e ? `${e.tagName} ${e.getAttribute("aria-label") ?? e.textContent?.trim().slice(0, 40) ?? ""}` : "";
  });
  const tabTo = async (name: RegExp) => {
    for (let n = 0; n < 60; n++) {
      await page.keyboard.press("Tab");
      if (name.test(await focused())) return;
    }
    throw new Error(`Tab never comes to ${name}; it is at ${await focused()}`);
  };
  await tabTo(/^INPUT/);
  await page.keyboard.type(await lab.token("operator"));
  await page.keyboard.press("Enter");
  await page.getByRole("navigation", { name: "Views" }).waitFor();
  for (const [name, hash] of [[/^A Topology/, "#/topology"], [/^A Sessions/, "#/sessions"], [/^A Events/, "#/events"], [/^A Overview/, "#/"]] as const) {
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
    await tabTo(name);
    const ring = await page.evaluate(() => {
      const s = getComputedStyle(document.activeElement ?? document.body);
      return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0 || s.boxShadow !== "none";
    });
    expect(ring, `focus is seen at ${name}`).toBe(true);
    await page.keyboard.press("Enter");
    await expect.poll(() => new URL(page.url()).hash || "#/").toBe(hash);
  }
  await page.reload();
  await page.getByRole("navigation", { name: "Views" }).waitFor();
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await tabTo(/^A Skip to content/);
  await page.keyboard.press("Enter");
  expect(await focused()).toMatch(/^MAIN/);
  // From the content, Tab goes to a cell of the matrix, and Enter to the pair.
  await page.getByRole("link", { name: /^a to b|a → b/ }).first().waitFor();
  await tabTo(/^A a to b|^A a → b/);
  await page.keyboard.press("Enter");
  await expect.poll(() => new URL(page.url()).hash).toContain("#/pair/a/b");
  clean();
  await close();
});
