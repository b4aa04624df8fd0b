// Modules of marks that the form knows only by their descriptors.
import { readFileSync } from "node:fs";
import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { render } from "preact";
import { expect, test } from "vitest";
import { ListPointsResponseSchema } from "../../gen/session_pb.ts";
import { ModuleChoice } from "./traffic.tsx";

/** What the API says of modules, one of which exists only in tests (server/web). */
const { modules } = fromJson(ListPointsResponseSchema, JSON.parse(readFileSync("data/testdata/modules.json", "utf8")) as JsonValue);

test("each module has a check box without any code for it", () => {
  const box = document.createElement("div");
  document.body.append(box);
  let chosen = ["delay", "unknown"];
  const draw = (): void => render(<ModuleChoice known={modules} chosen={chosen} fault={undefined} onChange={(next) => (chosen = next)} />, box);
  draw();
  const labels = [...box.querySelectorAll("label")];
  expect(labels.map((l) => `${l.textContent?.trim()}: ${String(l.querySelector("input")?.checked)}`)).toEqual([
    "One-way delay and delay variation: true", "Loss, duplication and reordering: false",
    "Round-trip time, split into network and other host (IPv6, encoding pdm): false",
    "One-way delay up to a waypoint on the path, and from there on: false", "Routers that a packet passed, 4 bytes in each mark: false", "unknown: true",
  ]);
  labels[4]?.querySelector("input")?.click();
  expect(chosen).toEqual(["delay", "unknown", "test-hops"]);
  draw();
  box.querySelector("input")?.click();
  expect(chosen).toEqual(["unknown", "test-hops"]);
});
