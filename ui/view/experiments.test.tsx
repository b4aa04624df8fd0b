// A report is drawn as text and images, whatever it contains.
import { render } from "preact";
import { expect, test } from "vitest";
import { headOf, type Head, type Part } from "../data/reports.ts";
import { Heads, ReportBody } from "./experiments.tsx";

const evil = '<img src=x onerror="alert(1)"><script>alert(2)</script>';
const head = headOf(evil, "r", 0, JSON.stringify({ title: evil, question: evil, facts: [[evil, evil]], parts: 6, verdicts: { met: 2, undecided: 1 } })) as Head;
const parts: Part[] = [
  { kind: "text", text: "before any section", note: false },
  { kind: "section", title: evil },
  { kind: "verdict", verdict: "missed", text: evil },
  { kind: "table", caption: evil, columns: [evil, "n"], rows: [[evil, "1"]], numeric: [1], marked: [0] },
  { kind: "figure", title: evil, description: evil, caption: "", svg: `<svg><script>alert(3)</script></svg>` },
  { kind: "code", caption: evil, text: evil },
];

test("nothing in a report becomes an element of the page", () => {
  const box = document.createElement("div");
  render(<ReportBody report={{ head, parts, missing: 1 }} colours="--c0:red;" />, box);
  expect(box.querySelectorAll("script, iframe, object, style").length).toBe(0);
  const images = [...box.querySelectorAll("img")];
  expect(images.map((i) => i.getAttribute("src")?.slice(0, 19))).toEqual(["data:image/svg+xml,"]);
  expect([...box.querySelectorAll("*")].flatMap((e) => e.getAttributeNames()).filter((name) => name.startsWith("on"))).toEqual([]);
  expect(box.querySelector("h1")?.textContent).toBe(evil);
  expect([...box.querySelectorAll("h2")].map((h) => h.textContent)).toEqual(["Report", evil]);
  expect(box.querySelector("[role=alert]")?.textContent).toContain("1 of 6 parts");
  expect(box.querySelector(".verdict")?.textContent).toBe("✗ missed");
  expect(box.querySelector("tr.report-marked td.number")?.textContent).toBe("1");
});

test("the list names verdicts in words", () => {
  const box = document.createElement("div");
  render(<Heads heads={[head]} />, box);
  expect([...box.querySelectorAll(".verdict")].map((v) => v.textContent)).toEqual(["2 ✓ met", "1 ? undecided"]);
  expect(box.querySelector("a")?.getAttribute("href")).toBe(`#/experiments/${encodeURIComponent(evil)}`);
});
