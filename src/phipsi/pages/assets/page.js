"use strict";
// The page around a scene: light and dark, the menu of what is shown, keys, and facts about the body that was picked.
// Scripts that follow (timeline.js, live.js) move `page.scene` and add keys and facts.
const data = JSON.parse(document.getElementById("data").textContent);
const page = {
  data,
  scene: null, // PhipsiScene, or null without WebGL
  poses: data.scene ? new Float64Array(12 * data.scene.bodies.length) : null, // those that are shown, as setPoses has them
  suppliers: [], // (number of a body) => [{label, text} or {label, matrix, note}], below name, mass and pose
  keys: [],
  gestures: [], // of further scripts: [gesture, meaning], in the help behind "drag"
  element: (id) => document.getElementById(id),
  binary(name) { return new Uint8Array(PhipsiShapes.bytes(JSON.parse('"' + this.element("binary-" + name).textContent + '"'))); },
  key(keys, what, action) { // `keys` as KeyboardEvent.key has them; the help lists them in this order
    this.keys.push({ keys: [].concat(keys), what, action });
  },
  setPoses(poses) {
    if (poses !== this.poses) this.poses.set(poses);
    if (this.scene) this.scene.setPoses(this.poses);
    this.stale = true;
  },
  // What is between two recorded frames, s from 0 to 1: poses are n times [quaternion w x y z, position] in a frame, and `modal` has the
  // modal coordinates of every body that deforms.
  showBetween({ poses, modal }, low, high, s) {
    const n = data.scene.bodies.length;
    for (let k = 0; k < n; k++) {
      const a = poses.subarray(7 * (low * n + k), 7 * (low * n + k) + 7), b = poses.subarray(7 * (high * n + k), 7 * (high * n + k) + 7);
      const sign = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3] < 0 ? -1 : 1, p = [];
      for (let i = 0; i < 7; i++) p.push((1 - s) * a[i] + s * (i < 4 ? sign : 1) * b[i]);
      const size = Math.hypot(p[0], p[1], p[2], p[3]), [w, x, y, z] = [p[0] / size, p[1] / size, p[2] / size, p[3] / size];
      this.poses.set([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y), p[4], p[5], p[6]], 12 * k);
    }
    this.setPoses(this.poses);
    if (this.scene) modal.forEach((values, which) => {
      const { count } = data.scene.flexible[which];
      this.scene.setModes(which, Array.from({ length: count }, (_, i) => (1 - s) * values[low * count + i] + s * values[high * count + i]));
    });
  },
  picked: null,
  pick(name) {
    this.picked = name === undefined ? null : name;
    if (this.scene) this.scene.pick(this.picked);
    this.facts();
  },
  facts() { // writes the panel of the body that was picked
    const panel = this.element("facts"), k = this.picked === null ? -1 : data.scene.bodies.findIndex((b) => b.name === this.picked);
    panel.hidden = k < 0; this.stale = false;
    if (k < 0) return;
    const body = data.scene.bodies[k], p = this.poses.subarray(12 * k, 12 * k + 12), parent = body.parent < 0 ? "world" : data.scene.bodies[body.parent].name;
    const turn = [[p[0], p[1], p[2]], [p[3], p[4], p[5]], [p[6], p[7], p[8]]];
    const rows = [
      { label: "mass", text: `${page.number(body.mass)} kg` },
      { label: "joint", text: `${body.joint.name} (${body.joint.kind}), parent ${parent}` },
      { label: "centre of mass", text: `${body.com.map(page.number).join("  ")} m, in body axes` },
      { label: "position", text: `${[p[9], p[10], p[11]].map(page.number).join("  ")} m, in world axes` },
      { label: "rotation", matrix: turn, note: "from body axes to world axes" },
      ...(this.machines ? this.machines(k) : []),
      ...this.suppliers.flatMap((supply) => supply(k) || []),
    ];
    const make = (tag, text, kind) => { const out = document.createElement(tag); if (text !== undefined) out.textContent = text; if (kind) out.className = kind; return out; };
    const close = make("button", "×", "close"); close.setAttribute("aria-label", "close"); close.addEventListener("click", () => page.pick(null));
    const list = make("dl");
    for (const row of rows) {
      const label = make("dt", row.label, row.matrix && "wide"), value = make("dd", row.text, row.matrix && "wide");
      if (row.note) label.append(make("small", row.note));
      if (row.matrix) {
        const table = make("table", undefined, "matrix");
        for (const numbers of row.matrix) { const line = make("tr"); line.append(...numbers.map((x) => make("td", page.number(x)))); table.append(line); }
        value.append(table);
      }
      list.append(label, value);
    }
    const at = panel.scrollTop;
    panel.replaceChildren(close, make("h2", body.name), list); panel.scrollTop = at;
  },
  number(x) {
    if (x === null || !Number.isFinite(x)) return "–";
    const size = Math.abs(x);
    if (size < 1e-12) return "0";
    if (size < 1e-3 || size >= 1e5) return x.toExponential(2).replace("-", "−").replace(/e([+−-]?)(\d+)/, (_, s, d) => "e" + (s === "+" ? "" : "−") + d);
    return x.toPrecision(4).replace("-", "−");
  },
  notice(text, kind = "") { // a line in the strip above the scene, which its button closes; `kind`: "bad" for errors
    const box = this.element("notices"), line = document.createElement("div"), words = document.createElement("p"), close = document.createElement("button");
    line.className = `notice ${kind}`; words.textContent = text; close.textContent = "×"; close.setAttribute("aria-label", "close this notice");
    line.show = (now) => { words.textContent = now; line.hidden = !now; box.hidden = ![...box.children].some((x) => !x.hidden); };
    close.addEventListener("click", () => line.show(""));
    line.append(words, close); box.append(line); line.show(text);
    return line;
  },
  frame: [], // called at every picture of the screen, before the scene is drawn, with the time in ms and the seconds that went by, at most 0.1
  shows: [], // called with the name in `scene.show`, and whether it is shown now
  themes: [], // called with "light" or "dark"
  theme(name) {
    document.documentElement.dataset.theme = name;
    if (this.scene) this.scene.theme(name);
    this.themes.forEach((f) => f(name));
  },
  get isDark() { return document.documentElement.dataset.theme !== "light"; },
};

// ---- the scene ----------------------------------------------------------------------------------------------------
page.element("stage").hidden = !data.scene;
if (data.scene) {
  page.poses.fill(0);
  for (let k = 0; k < data.scene.bodies.length; k++) for (const i of [0, 4, 8]) page.poses[12 * k + i] = 1;
  try {
    page.scene = new PhipsiScene(page.element("view"), data.scene);
    page.scene.onPick = (name) => page.pick(name);
    const controls = page.element("controls"), cover = () => { page.scene.bottom = controls.offsetHeight ? controls.offsetHeight + 14 : 0; page.element("stage").style.setProperty("--covered", page.scene.bottom + "px"); page.scene.resize(); };
    cover(); page.scene.home(); new ResizeObserver(cover).observe(controls);
    page.scene.setPoses(page.poses);
  } catch (error) {
    page.notice("This browser does not support WebGL 2, so the mechanism is not drawn. The rest of the page works without it.");
  }
  for (const text of (data.scene.notices || []).filter((x) => x)) page.notice(text);
}

// ---- what is shown ------------------------------------------------------------------------------------------------
const SHOWN = [ // name in `scene.show`, words, key
  ["bodies", "bodies", "b"], ["shadows", "shadows", "s"], ["paths", "paths of points", "p"], ["forces", "forces", "o"],
  ["frames", "frames", "f"], ["axes", "joint axes", "a"], ["centreOfMass", "centres of mass", "c"],
  ["inertia", "inertia ellipsoids", "i"], ["loops", "loop closures and grasps", "g"], ["labels", "names", "n"],
];
page.show = (name, on) => {
  if (!page.scene) return;
  const now = on === undefined ? !page.scene.shown[name] : on;
  page.scene.show({ [name]: now });
  for (const button of document.querySelectorAll(`[data-shows="${name}"]`)) {
    button.classList.toggle("on", now); button.setAttribute("aria-pressed", String(now));
  }
  page.shows.forEach((f) => f(name, now));
};
const menu = page.element("show-menu"), menuButton = page.element("show-button");
const openMenu = (on) => { menu.hidden = !on; menuButton.setAttribute("aria-expanded", String(on)); };
menuButton.addEventListener("click", () => openMenu(menu.hidden));
menu.parentElement.addEventListener("keydown", (e) => { // up and down between its buttons, escape back to the one that opened it
  const all = [...menu.children], at = all.indexOf(document.activeElement), by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (menu.hidden || (e.key !== "Escape" && (!by || (at < 0 && document.activeElement !== menuButton)))) return;
  e.preventDefault(); e.stopPropagation();
  if (e.key === "Escape") { openMenu(false); menuButton.focus(); } else all[at < 0 ? (by > 0 ? 0 : all.length - 1) : (at + by + all.length) % all.length].focus();
});
document.addEventListener("pointerdown", (e) => { if (!menu.contains(e.target) && e.target !== menuButton) openMenu(false); });
page.element("home").addEventListener("click", () => page.scene && page.scene.home());
if (page.scene) for (const [name, words, key] of SHOWN) {
  const button = document.createElement("button"), letter = document.createElement("kbd");
  button.id = "show-" + name; button.dataset.shows = name; button.append(Object.assign(document.createElement("span"), { textContent: words })); letter.textContent = key; button.append(letter); menu.append(button);
  page.key(key, "show or hide " + words, () => page.show(name));
  page.show(name, page.scene.shown[name]);
}
for (const button of document.querySelectorAll("[data-shows]")) button.addEventListener("click", () => page.show(button.dataset.shows));

// ---- light and dark, keys and help --------------------------------------------------------------------------------
const prefersLight = window.matchMedia("(prefers-color-scheme: light)");
page.theme(prefersLight.matches ? "light" : "dark");
prefersLight.addEventListener("change", () => page.theme(prefersLight.matches ? "light" : "dark"));
page.element("theme").addEventListener("click", () => page.theme(page.isDark ? "light" : "dark"));
page.element("help-button").addEventListener("click", () => page.help());
page.help = () => {
  const help = page.element("help"), list = page.element("keys"), gestures = [
    ["drag", "turn the view"], ...page.gestures, ["wheel, pinch", "zoom"], ["shift-drag, two fingers", "pan the view"], ["click, tap", "select a body and show its properties"], ["double click", "reset the view"]];
  if (help.open) { help.close(); return; }
  const names = { " ": "space", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "esc" };
  list.replaceChildren();
  for (const [keys, what] of [...gestures, ...page.keys.map((k) => [k.keys.map((x) => names[x] || x), k.what])]) {
    const term = document.createElement("dt"), meaning = document.createElement("dd");
    for (const one of [].concat(keys)) { const kbd = document.createElement("kbd"); kbd.textContent = one; term.append(kbd); }
    meaning.textContent = what; list.append(term, meaning);
  }
  help.showModal();
};
const nextBody = (step) => {
  const bodies = data.scene ? data.scene.bodies : [], k = bodies.findIndex((b) => b.name === page.picked);
  if (bodies.length) page.pick(bodies[(k < 0 ? (step > 0 ? 0 : bodies.length - 1) : k + step + bodies.length) % bodies.length].name);
};
page.key("?", "show this list", () => page.help());
page.key("t", "switch between light and dark", () => page.theme(page.isDark ? "light" : "dark"));
page.key(["h", "Home"], "reset the view", () => page.scene && page.scene.home());
page.key("+", "zoom in", () => page.scene && page.scene.zoom(0.87));
page.key("-", "zoom out", () => page.scene && page.scene.zoom(1.15));
page.key(["ArrowUp", "ArrowDown"], "tilt the view", (e) => page.scene && page.scene.turn(0, e.key === "ArrowUp" ? 0.1 : -0.1));
page.key(["[", "]"], "turn the view", (e) => page.scene && page.scene.turn(e.key === "[" ? 0.1 : -0.1, 0));
page.key(["j", "k"], "select the next or previous body", (e) => nextBody(e.key === "j" ? 1 : -1));
page.key("Escape", "close the menu and the properties", () => { openMenu(false); page.pick(null); });
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || page.element("help").open) return;
  const tag = e.target.tagName, found = page.keys.find((k) => k.keys.includes(e.key === "=" ? "+" : e.key));
  const taken = ["TEXTAREA", "SELECT"].includes(tag) || (tag === "INPUT" && (e.target.type !== "range" || e.key.startsWith("Arrow"))) || (["BUTTON", "SUMMARY"].includes(tag) && [" ", "Enter"].includes(e.key));
  if (!found || taken) return;
  e.preventDefault(); found.action(e);
});

// ---- pictures of the screen ---------------------------------------------------------------------------------------
let tickBefore = null;
function pageTick(at) {
  const passed = tickBefore === null ? 0 : Math.min((at - tickBefore) / 1000, 0.1);
  tickBefore = at;
  page.frame.forEach((f) => f(at, passed));
  if (page.stale && page.picked !== null) page.facts();
  if (page.scene) page.scene.draw();
  requestAnimationFrame(pageTick);
}
requestAnimationFrame(pageTick);
