// What the axes and legends of plots say.
import assert from "node:assert/strict";
import { test } from "node:test";

import { fromScript } from "./assets.mjs";

const names = ["power", "niceStep", "middleCut", "rangeOf"], page = { data: { charts: [] } };
const { power, niceStep, middleCut, rangeOf } = fromScript("charts.js", names, page);

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

test("what changes keeps its own axis", () => {
  assert.deepEqual({ ...rangeOf(-2, 3, 1e-13, undefined, false) }, { low: -2, high: 3, said: "" });
  assert.deepEqual({ ...rangeOf(1, 3, 1e-13, undefined, true) }, { low: 0, high: 3, said: "" });
  assert.deepEqual({ ...rangeOf(-4e-9, 0, 1e-12, 25, true) }, { low: -4e-9, high: 0, said: "" });
});

test("rounding is not magnified: the axis has the size of what is computed, and the plot says how constant it is", () => {
  const energy = rangeOf(-3e-14, 1e-14, 2e-12, 20, true);
  assert.ok(energy.low < -1.9 && energy.high > 1.9);
  assert.equal(energy.said, "constant to 2e−15");
  const joint = rangeOf(1, 1 + 4e-16, 1e-13, undefined, false);
  assert.ok(joint.low < 0.91 && joint.high > 1.09);
  assert.equal(joint.said, "constant to 4e−16");
  assert.equal(rangeOf(5, 5, 1e-13, undefined, false).said, "constant");
});

test("an axis of nothing is still an axis", () => {
  for (const range of [rangeOf(0, 0, 1e-13, undefined, false), rangeOf(Infinity, -Infinity, 1e-13, undefined, true)])
    assert.deepEqual({ ...range }, { low: -1, high: 1, said: "" });
});
