"use strict";
// A recorded run: time with play, pause, step and slow motion, shared by the scene and the plots.
const { floats } = PhipsiShapes;
const clock = {
  now: data.start, playing: false, listeners: [],
  set(t) {
    this.now = Math.min(Math.max(t, data.start), data.end);
    this.listeners.forEach((f) => f(this.now));
  },
};
const run = { times: floats(data.scene.times), poses: floats(data.scene.poses), modal: data.scene.modal.map(floats) };
// The last entry of `list` that is at most t; the next one; and how far t is between them, from 0 to 1.
function bracket(list, t) {
  let low = 0, high = list.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (list[middle] <= t) low = middle; else high = middle; }
  return [low, high, list[high] > list[low] ? Math.min(Math.max((t - list[low]) / (list[high] - list[low]), 0), 1) : 0];
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
clock.listeners.push((t) => {
  page.showBetween(run, ...bracket(run.times, t));
  if (!page.scene) return;
  page.scene.setTime(t);
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
if (pushes.length) force.title = `show or hide force arrows; 0.1 m is ${(0.1 * Math.max(...pushes.map((g) => g.unit))).toPrecision(2)} N`;
const faster = (by) => { speed.selectedIndex = Math.min(Math.max(speed.selectedIndex + by, 0), speed.options.length - 1); };
page.key(" ", "play or pause", () => setPlaying(!clock.playing));
page.key(["ArrowLeft", "ArrowRight"], "back or forward by 1/200 of the duration", (e) => { setPlaying(false); clock.set(clock.now + (e.key === "ArrowRight" ? 1 : -1) * (data.end - data.start) / 200); });
page.key([",", "."], "one recorded frame back or forward", (e) => step(e.key === "." ? 1 : -1));
page.key(["<", ">"], "slower or faster", (e) => faster(e.key === ">" ? 1 : -1));
page.key("0", "back to the start", () => { setPlaying(false); clock.set(data.start); });

page.frame.push((at, passed) => {
  if (!clock.playing || !passed) return;
  const t = clock.now + Number(speed.value) * passed;
  clock.set(t >= data.end ? data.start : t); // around again
});
clock.set(data.start);
// A page that is asked to move little waits for the button.
setPlaying(!window.matchMedia("(prefers-reduced-motion: reduce)").matches);
