"use strict";
// A recorded run: time with play, pause, step and slow motion, shared by the scene and the plots.
const floats = (text) => new Float32Array(PhipsiShapes.bytes(text));
const clock = {
  now: data.start, playing: false, listeners: [],
  set(t) {
    this.now = Math.min(Math.max(t, data.start), data.end);
    this.listeners.forEach((f) => f(this.now));
  },
};
const run = { times: floats(data.scene.times), poses: floats(data.scene.poses), bodies: data.scene.bodies.length };
// The last entry of `list` that is at most t; the next one; and how far t is between them, from 0 to 1.
function bracket(list, t) {
  let low = 0, high = list.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (list[middle] <= t) low = middle; else high = middle; }
  return [low, high, list[high] > list[low] ? Math.min(Math.max((t - list[low]) / (list[high] - list[low]), 0), 1) : 0];
}
function posesAt(t, out) { // rotation and position of every body, between two recorded frames
  const [low, high, s] = bracket(run.times, t), n = run.bodies;
  for (let i = 0; i < n; i++) {
    const a = run.poses.subarray(7 * (low * n + i), 7 * (low * n + i) + 7), b = run.poses.subarray(7 * (high * n + i), 7 * (high * n + i) + 7);
    const sign = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3] < 0 ? -1 : 1, p = [];
    for (let k = 0; k < 7; k++) p.push((1 - s) * a[k] + s * (k < 4 ? sign : 1) * b[k]);
    const size = Math.hypot(p[0], p[1], p[2], p[3]), [w, x, y, z] = [p[0] / size, p[1] / size, p[2] / size, p[3] / size];
    out.set([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
      2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y), p[4], p[5], p[6]], 12 * i);
  }
}

// ---- forces and paths ---------------------------------------------------------------------------------------------
if (page.scene) {
  const times = floats(data.scene.trail_times);
  page.scene.setPaths(data.scene.trails.map((one) => ({ name: one.name, color: one.color, points: floats(one.points), times, span: data.scene.trail_span })));
}
const pushes = data.scene.arrows.map((group) => ({ ...group, points: floats(group.points), forces: floats(group.forces) }));
if (page.scene && pushes.length) page.scene.arrowUnit = Math.max(...pushes.map((g) => g.unit));
function arrowsAt(t) {
  const [low, high] = bracket(run.times, t + 1e-9), frame = run.times[high] <= t + 1e-9 ? high : low;
  return pushes.flatMap(({ count, kind, labels, points, forces }) => Array.from({ length: count }, (_, i) => {
    const from = 3 * (frame * count + i);
    return { at: points.subarray(from, from + 3), vector: forces.subarray(from, from + 3), kind, label: labels[i] };
  }));
}
const modal = (data.scene.modal || []).map(floats);
function bend(t) { // modal coordinates between two recorded frames
  const [low, high, s] = bracket(run.times, t);
  modal.forEach((values, which) => {
    const n = values.length / run.times.length;
    page.scene.setModes(which, Array.from({ length: n }, (_, i) => (1 - s) * values[low * n + i] + s * values[high * n + i]));
  });
}
clock.listeners.push((t) => {
  posesAt(t, page.poses); page.setPoses(page.poses);
  if (!page.scene) return;
  page.scene.setTime(t); bend(t);
  if (pushes.length) page.scene.setArrows(arrowsAt(t));
});

// ---- operators at the body that was picked, computed at some of the recorded times -----------------------------------
if (data.blocks) {
  const blocks = { times: data.blocks.times, P: floats(data.blocks.P), D: floats(data.blocks.D), G: floats(data.blocks.G), sizes: data.blocks.sizes };
  page.suppliers.push((k) => {
    const [low, high, s] = bracket(blocks.times, clock.now), frame = s > 0.5 ? high : low, n = blocks.sizes.length;
    const first = blocks.sizes.slice(0, k), nv = blocks.sizes[k], all = blocks.sizes.reduce((a, b) => a + b, 0), squares = blocks.sizes.reduce((a, b) => a + b * b, 0);
    const read = (values, from, rows, columns) => Array.from({ length: rows }, (_, i) => [...values.subarray(from + i * columns, from + (i + 1) * columns)]);
    const note = `at ${blocks.times[frame].toFixed(3)} s, body axes, [angular; linear]`;
    return [
      { label: "P, articulated inertia", note, matrix: read(blocks.P, 36 * (frame * n + k), 6, 6) },
      ...(nv ? [
        { label: "D, hinge inertia", note: `at ${blocks.times[frame].toFixed(3)} s`, matrix: read(blocks.D, frame * squares + first.reduce((a, b) => a + b * b, 0), nv, nv) },
        { label: "G, gain P H* D⁻¹", note, matrix: read(blocks.G, 6 * (frame * all + first.reduce((a, b) => a + b, 0)), 6, nv) },
      ] : []),
    ];
  });
}

// ---- transport ----------------------------------------------------------------------------------------------------
const play = page.element("play"), scrub = page.element("scrub"), speed = page.element("speed");
scrub.min = data.start; scrub.max = data.end;
function setPlaying(on) {
  clock.playing = on && data.end > data.start;
  play.textContent = clock.playing ? "❚❚" : "▶";
  play.setAttribute("aria-label", clock.playing ? "pause" : "play");
  if (clock.playing && clock.now >= data.end) clock.set(data.start);
}
function step(count) { // to the recorded frame so many further
  const [low, high, s] = bracket(run.times, clock.now), from = s > 0.999 ? high : s < 0.001 || count < 0 ? low + (count < 0 && s >= 0.001 ? 1 : 0) : low;
  setPlaying(false); clock.set(run.times[Math.min(Math.max(from + count, 0), run.times.length - 1)]);
}
clock.listeners.push((t) => {
  scrub.value = t;
  page.element("clock").textContent = `${t.toFixed(2)} / ${data.end.toFixed(2)} s`;
});
play.addEventListener("click", () => setPlaying(!clock.playing));
page.element("back").addEventListener("click", () => step(-1));
page.element("forth").addEventListener("click", () => step(1));
scrub.addEventListener("input", () => { setPlaying(false); clock.set(Number(scrub.value)); });
const force = page.element("force");
force.hidden = !pushes.length;
if (pushes.length) force.title = `forces: 0.1 m is ${(0.1 * Math.max(...pushes.map((g) => g.unit))).toPrecision(2)} N`;
const faster = (by) => { speed.selectedIndex = Math.min(Math.max(speed.selectedIndex + by, 0), speed.options.length - 1); };
page.key(" ", "play or pause", () => setPlaying(!clock.playing));
page.key(["ArrowLeft", "ArrowRight"], "back or forth by 1/200 of the run", (e) => { setPlaying(false); clock.set(clock.now + (e.key === "ArrowRight" ? 1 : -1) * (data.end - data.start) / 200); });
page.key([",", "."], "one recorded frame back or forth", (e) => step(e.key === "." ? 1 : -1));
page.key(["<", ">"], "slower or faster", (e) => faster(e.key === ">" ? 1 : -1));
page.key("0", "to the start", () => { setPlaying(false); clock.set(data.start); });

let before = null;
page.frame.push((at) => {
  if (clock.playing && before !== null) {
    const t = clock.now + Number(speed.value) * Math.min((at - before) / 1000, 0.1);
    clock.set(t >= data.end ? data.start : t); // around again
  }
  before = at;
});
clock.set(data.start);
// A page that is asked to move little waits for the button.
setPlaying(!window.matchMedia("(prefers-reduced-motion: reduce)").matches);
