import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { PlanSessionResponseSchema, SessionSpecSchema, type PlanSessionResponse } from "../gen/session_pb.ts";
import { planner } from "./plan.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const spec = (name: string) => create(SessionSpecSchema, { name });

it("requests once for quick input, and drops outdated answers", async () => {
  const asked: string[] = [];
  const answers: ((p: PlanSessionResponse) => void)[] = [];
  const p = planner((s) => {
    asked.push(s.name);
    return new Promise((resolve) => answers.push(resolve));
  });
  p.ask(spec("a"));
  p.ask(spec("ab"));
  await vi.advanceTimersByTimeAsync(260);
  expect(asked).toEqual(["ab"]);
  p.ask(spec("abc"));
  await vi.advanceTimersByTimeAsync(260);
  answers[1]?.(create(PlanSessionResponseSchema, { costs: ["new"] }));
  await vi.advanceTimersByTimeAsync(0);
  answers[0]?.(create(PlanSessionResponseSchema, { costs: ["old"] }));
  await vi.advanceTimersByTimeAsync(0);
  expect(p.plan.value?.costs).toEqual(["new"]);
  expect(p.fresh.value).toBe(true);
});

it("reports why there is no answer, and retries", async () => {
  let n = 0;
  const p = planner(() => (n++ === 0 ? Promise.reject(new Error("broken")) : Promise.resolve(create(PlanSessionResponseSchema))));
  p.ask(spec("a"));
  await vi.advanceTimersByTimeAsync(260);
  expect(p.fault.value).toContain("roken");
  expect(p.fresh.value).toBe(false);
  await vi.advanceTimersByTimeAsync(2100);
  expect(p.fresh.value).toBe(true);
  expect(p.fault.value).toBeUndefined();
});
