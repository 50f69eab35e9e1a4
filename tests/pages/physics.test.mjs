// The physics of a live page by itself, where closed forms and its own numbers say what is right.
// test_live_physics.py compares it with Python.
import assert from "node:assert/strict";
import { test } from "node:test";

import { physicsOf } from "./assets.mjs";

const close = (found, wanted, tolerance) => {
  assert.equal(found.length, wanted.length);
  found.forEach((x, i) => assert.ok(Math.abs(x - wanted[i]) <= tolerance, `${found} for ${wanted}`));
};

test("rotations in space have sliders", async () => {
  const physics = await physicsOf("flyer"), c = physics.description.coordinates;
  physics.set(c[0], 0.5);
  physics.set(c[2], -0.7);
  physics.set(c[4], 0.25);
  close(c.slice(0, 6).map((x) => physics.get(x)), [0.5, 0, -0.7, 0, 0.25, 0], 1e-12);
  const vector = [0.5, 0, -0.7], angle = Math.hypot(...vector);
  const unit = [Math.cos(angle / 2), ...vector.map((x) => (Math.sin(angle / 2) / angle) * x)];
  close([...physics.values.q.slice(0, 4)], unit, 1e-14);
});

test("joints that turn have the same value after a turn", async () => {
  const physics = await physicsOf("held arm"), { q } = physics.values;
  const [c] = physics.description.coordinates;
  assert.ok(c.periodic);
  q[0] = 2 * Math.PI + 0.25;
  close([physics.get(c)], [0.25], 1e-12);
  physics.set(c, 0.5);
  close([q[0]], [2 * Math.PI + 0.5], 1e-12);
});

test("a hand is a spring, and its release keeps the energy", async () => {
  const physics = await physicsOf("flyer"), point = [0.1, 0, 0.05];
  const wrist = physics.description.bodies.indexOf("left_wrist"), k = wrist < 0 ? 5 : wrist;
  physics.grab(k, point);
  const here = physics.pointInWorld(k, point);
  physics.pull([here[0] + 0.3, here[1], here[2]]);
  physics.advance(150);
  assert.ok(physics.pointInWorld(k, point)[0] - here[0] > 0.02);
  physics.release();
  const energy = () => {
    physics.look();
    return physics.values.energies.reduce((a, b) => a + b, 0);
  };
  const before = energy();
  physics.advance(500);
  assert.ok(Math.abs(energy() - before) < 1e-7 * Math.max(1, Math.abs(before)));
});

test("everything is taken back to the first state", async () => {
  const physics = await physicsOf("held arm"), first = [...physics.values.q];
  physics.values["live_damping.rate"][0] = 2;
  physics.advance(20);
  assert.ok(physics.isChanged && physics.values.t[0] > 0);
  physics.reset();
  assert.ok(!physics.isChanged && physics.values.t[0] === 0);
  assert.deepEqual([...physics.values.q], first);
});
