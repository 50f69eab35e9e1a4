// What the axes and legends of plots say.
import assert from "node:assert/strict";
import { test } from "node:test";

import { fromScript } from "./assets.mjs";

const names = ["power", "niceStep", "middleCut"], page = { data: { charts: [] } };
const { power, niceStep, middleCut } = fromScript("charts.js", names, page);

test("powers of ten are written as on paper", () => {
  assert.equal(power(0), "10⁰");
  assert.equal(power(-12), "10⁻¹²");
  assert.equal(power(34), "10³⁴");
});

test("steps of an axis are one, two or five times a power of ten", () => {
  for (const [span, step] of [[5, 1], [7, 2], [24, 5], [26, 10], [0.004, 0.001], [3e9, 1e9]]) {
    const found = niceStep(span, 5);
    assert.ok(Math.abs(found - step) < 1e-12 * step, `${found} for ${span}`);
  }
});

test("an axis has at least two and at most five steps, whatever its span", () => {
  for (let i = 0; i < 400; i++) {
    const span = 10 ** (-8 + i / 25), count = span / niceStep(span, 5);
    assert.ok(count > 2 - 1e-9 && count < 5 + 1e-9, `${count} steps for ${span}`);
  }
});

test("long names keep their beginning and their end", () => {
  const name = "a".repeat(30) + "b".repeat(30);
  assert.equal(middleCut("left_wrist"), "left_wrist");
  assert.equal(middleCut(name), "a".repeat(19) + "…" + "b".repeat(20));
  assert.equal(middleCut(name, 10), "aaaa…bbbbb");
  assert.equal(middleCut("x".repeat(40)).length, 40);
});
