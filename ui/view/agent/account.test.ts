import { expect, it } from "vitest";
import { accountOf } from "./account.ts";

it("closes where marked and skipped are what was seen", () => {
  expect(accountOf({ seen: 10n, matched: 8n, marked: 7n, skipped_not_ip: 1n, skipped_mtu: 2n, skipped_gso: 0n })).toEqual({
    seen: 10, marked: 7, skipped: [{ reason: "too long for the MTU", packets: 2 }, { reason: "not IP", packets: 1 }], open: 0,
  });
});

it("says how much is open", () => expect(accountOf({ seen: 10n, marked: 7n, skipped_new_reason: 1n })?.open).toBe(2));

it("is only of sources", () => expect(accountOf({ packets: 3n })).toBeUndefined());
