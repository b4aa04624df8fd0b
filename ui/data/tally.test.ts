import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { TaskSchema } from "../gen/agent_pb.ts";
import { accountsOf } from "./tally.ts";

const task = (role: string, counters: Record<string, number>) =>
  create(TaskSchema, { role, counters: Object.fromEntries(Object.entries(counters).map(([k, n]) => [k, BigInt(n)])) });

it("closes the account of a source, and shows the rest", () => {
  const { accounts, others } = accountsOf(task("source", { seen: 100, marked: 90, skipped_probe: 4, skipped_not_sampled: 5, skipped_gso: 0, bytes_added: 7, paths_failed: 0 }));
  expect(accounts).toEqual([{ total: { label: "packets seen", n: 100 }, parts: [{ label: "marked", n: 90 }, { label: "unmarked: not in the sample", n: 5 }, { label: "unmarked: own probes", n: 4 }], rest: 1 }]);
  expect(others).toEqual([{ label: "bytes added", n: 7 }]);
});

it("names an unknown reason by its counter", () => {
  const { accounts } = accountsOf(task("source", { seen: 10, marked: 7, skipped_new_reason: 1 }));
  expect(accounts[0]).toMatchObject({ parts: [{ n: 7 }, { label: "unmarked: new reason", n: 1 }], rest: 2 });
});

it("closes the accounts of a destination", () => {
  const { accounts } = accountsOf(task("destination", { packets: 98, duplicated: 1, expected: 99, lost: 2 }));
  expect(accounts.map((a) => a.rest)).toEqual([0, 0]);
  expect(accounts[0]?.parts).toEqual([{ label: "received", n: 97 }, { label: "lost", n: 2 }]);
});

it("closes the accounts of sparse marks", () => {
  const source = accountsOf(task("source", { seen: 100, marked: 10, counted: 85, skipped_mtu: 5 }));
  expect(source.accounts[0]).toMatchObject({ parts: [{ n: 10 }, { label: "counted without a mark", n: 85 }, { n: 5 }], rest: 0 });
  const destination = accountsOf(task("destination", { packets: 90, duplicated: 0, unchecked: 80, expected: 95, lost: 5 }));
  expect(destination.accounts.map((a) => a.rest)).toEqual([0, 0]);
  expect(destination.accounts[1]?.parts).toEqual([{ label: "checked for duplicates", n: 10 }, { label: "not checked, as marks are sparse", n: 80 }]);
});

it("has no account where nothing was counted", () => expect(accountsOf(task("destination", { device_seen: 3 }))).toEqual({ accounts: [], others: [{ label: "interface seen", n: 3 }] }));
