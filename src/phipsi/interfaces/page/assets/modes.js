"use strict";
// Small vibrations: one mode at a time moves as a sine, between the poses that Python computed at some amplitudes.
const vibration = {
  floats: (text) => new Float32Array(PhipsiShapes.bytes(text)), read: new Map(), chosen: 0, phase: 0, amplitude: 1, playing: false,
  of(i) { // poses and modal coordinates of a mode, unpacked when it is first shown
    if (!this.read.has(i)) { const one = data.vibrations[i]; this.read.set(i, { poses: this.floats(one.poses), modal: one.modal.map(this.floats) }); }
    return this.read.get(i);
  },
  // poses at an amplitude, between two of those that are known
  show(amplitude) {
    const list = data.amplitudes, n = data.scene.bodies.length, { poses, modal } = this.of(this.chosen);
    const place = Math.min(Math.max((amplitude - list[0]) / (list[1] - list[0]), 0), list.length - 1 - 1e-9), low = Math.floor(place), s = place - low;
    const between = (values, width, i) => (1 - s) * values[low * width + i] + s * values[(low + 1) * width + i];
    for (let k = 0; k < n; k++) {
      const p = Array.from({ length: 7 }, (_, i) => between(poses, 7 * n, 7 * k + i)), a = 7 * (low * n + k), b = a + 7 * n;
      if (poses[a] * poses[b] + poses[a + 1] * poses[b + 1] + poses[a + 2] * poses[b + 2] + poses[a + 3] * poses[b + 3] < 0)
        for (let i = 0; i < 4; i++) p[i] = (1 - s) * poses[a + i] - s * poses[b + i];
      const size = Math.hypot(p[0], p[1], p[2], p[3]), [w, x, y, z] = p.slice(0, 4).map((e) => e / size);
      page.poses.set([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y), p[4], p[5], p[6]], 12 * k);
    }
    page.setPoses(page.poses);
    if (page.scene) modal.forEach((values, which) => { const count = data.scene.flexible[which].count; page.scene.setModes(which, Array.from({ length: count }, (_, i) => between(values, count, i))); });
  },
  update() { this.show(this.amplitude * Math.sin(2 * Math.PI * this.phase)); },
  choose(i) {
    const count = data.vibrations.length, rows = document.querySelectorAll("#modes tr[data-mode]");
    this.chosen = (i + count) % count; this.phase = 0.25;
    rows.forEach((row, k) => row.classList.toggle("on", k === this.chosen));
    const w = data.vibrations[this.chosen].frequency;
    page.element("clock").textContent = `mode ${this.chosen + 1}: ${w === null ? "unstable" : w === 0 ? "rigid" : `${page.number(w / (2 * Math.PI))} Hz`}`;
    this.update();
  },
  play(on) { this.playing = on; page.element("play").textContent = on ? "❚❚" : "▶"; },
};
page.element("play").addEventListener("click", () => vibration.play(!vibration.playing));
page.element("back").addEventListener("click", () => vibration.choose(vibration.chosen - 1));
page.element("forth").addEventListener("click", () => vibration.choose(vibration.chosen + 1));
page.element("amplitude").addEventListener("input", (e) => { vibration.amplitude = Number(e.target.value); vibration.update(); });
document.querySelectorAll("#modes tr[data-mode]").forEach((row, i) => {
  row.addEventListener("click", () => vibration.choose(i));
  row.addEventListener("keydown", (e) => { if (e.key === "Enter") vibration.choose(i); });
});
page.key(" ", "play or pause", () => vibration.play(!vibration.playing));
page.key([",", "."], "mode before, next mode", (e) => vibration.choose(vibration.chosen + (e.key === "." ? 1 : -1)));
(() => {
  let before = null;
  page.frame.push((at) => {
    if (vibration.playing && before !== null) { vibration.phase += Number(page.element("speed").value) * Math.min((at - before) / 1000, 0.1); vibration.update(); }
    before = at;
  });
})();
vibration.choose(0);
vibration.play(!window.matchMedia("(prefers-reduced-motion: reduce)").matches); // a page that is asked to move little waits for the button
