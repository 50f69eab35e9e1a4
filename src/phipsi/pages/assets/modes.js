"use strict";
// Small vibrations: one mode at a time moves as a sine, between the poses that Python computed at some amplitudes.
const vibration = {
  read: new Map(), chosen: 0, phase: 0, amplitude: 1, playing: false,
  of(i) { // poses and modal coordinates of a mode, unpacked when it is first shown
    if (!this.read.has(i)) { const one = data.vibrations[i]; this.read.set(i, { poses: PhipsiShapes.floats(one.poses), modal: one.modal.map(PhipsiShapes.floats) }); }
    return this.read.get(i);
  },
  // poses at an amplitude, between two of those that are known
  show(amplitude) {
    const list = data.amplitudes, place = Math.min(Math.max((amplitude - list[0]) / (list[1] - list[0]), 0), list.length - 1 - 1e-9), low = Math.floor(place);
    page.showBetween(this.of(this.chosen), low, low + 1, place - low);
  },
  update() { this.show(this.amplitude * Math.sin(2 * Math.PI * this.phase)); },
  choose(i) {
    const count = data.vibrations.length, rows = document.querySelectorAll("#modes tr[data-mode]");
    this.chosen = (i + count) % count; this.phase = 0.25;
    rows.forEach((row, k) => row.classList.toggle("on", k === this.chosen));
    const w = data.vibrations[this.chosen].frequency;
    page.element("clock").textContent = `mode ${this.chosen + 1}: ${w === null ? "unstable" : w === 0 ? "rigid-body mode" : `${page.number(w / (2 * Math.PI))} Hz`}`;
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
page.key([",", "."], "previous mode, next mode", (e) => vibration.choose(vibration.chosen + (e.key === "." ? 1 : -1)));
page.frame.push((at, passed) => {
  if (vibration.playing) { vibration.phase += Number(page.element("speed").value) * passed; vibration.update(); }
});
vibration.choose(0);
vibration.play(!window.matchMedia("(prefers-reduced-motion: reduce)").matches); // a page that is asked to move little waits for the button
