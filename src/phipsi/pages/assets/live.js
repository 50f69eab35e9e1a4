"use strict";
// A live page: the physics of physics.js moves the scene; sliders, the mouse and the keyboard move the physics.
// On the page of a recording it waits behind a button, which hands over the state that is shown.
// Every text that comes from a model goes into the page by textContent.
page.live = { playing: false, physics: null, choose() {} };
(async () => {
  const live = page.live, settings = page.data.live, make = (tag, kind, text) => {
    const out = document.createElement(tag);
    if (kind) out.className = kind;
    if (text !== undefined) out.textContent = text;
    return out;
  };
  const physics = live.physics = await PhipsiPhysics.load(settings.physics, page.binary("physics"));
  const { values, description } = physics, { coordinates, bodies } = description, dt = physics.dt;
  const panel = page.element("live"), play = page.element("live-play"), speed = page.element("live-speed");
  const record = settings.record, controls = page.element("live-controls");
  if (record) page.element("stage").append(panel); // over the stage: the rest of the page is the recording's

  // ---- the state on the screen ----
  let held = false, error = null;
  live.error = (text) => {
    if (!text && !error) return;
    error = error ?? Object.assign(page.notice(text, "bad"), { id: "live-error", role: "alert" });
    error.show(text);
  };
  let shown = physics.save(); // the state of the last picture: where a step that fails goes back to
  const fail = (problem) => {
    const t = values.t[0];
    physics.restore(shown);
    live.set(false);
    const stiff = /finite/.test(problem.message) ? " Gains, stiffnesses or velocities are too large for this time step: stiff forces need steps well below their period." : "";
    live.error(`The step at ${(Number.isFinite(t) ? t : values.t[0]).toFixed(3)} s failed: ${problem.message}.${stiff} Press reset, or change a parameter and continue.`);
  };
  live.show = () => {
    try {
      physics.look();
      shown = physics.save();
    } catch (problem) {
      fail(problem);
      physics.look();
    }
    page.setPoses(physics.poses(page.poses));
    if (page.scene) { page.scene.setTime(values.t[0]); page.scene.setCoordinates(values.q); showForces(); }
    page.element("live-clock").textContent = `${values.t[0].toFixed(3)} s`;
  };
  live.set = (on) => { // let time go on, or stop it
    live.playing = on;
    play.textContent = on ? "❚❚" : "▶";
    play.setAttribute("aria-label", on ? "pause" : "play");
    if (on) live.error("");
  };
  live.advance = (steps) => {
    try {
      physics.advance(steps);
    } catch (problem) {
      fail(problem);
    }
  };
  live.step = () => { live.set(false); live.advance(1); live.show(); refresh(); watch(); };
  live.reset = () => { grabbed = null; physics.reset(); live.error(""); notices.forEach((tell) => tell("")); trace.length = 0; live.show(); refresh(); watch(); };

  // ---- rows of the panel ----
  const rows = [], notices = []; // functions that show the present values, and what became of a number that was typed
  const section = (title, note, open = true) => {
    const out = make("details", "card"), head = make("summary", "", title);
    if (note) head.append(make("small", "", note));
    out.open = open; out.append(head); panel.append(out);
    return out;
  };
  // What is nothing beside the numbers of a slider is shown as 0.
  // A slider with a number beside it; `get` and `set` are in the unit that is shown. A number that is beyond `least` or `most`, or that
  // the mechanism cannot have, is changed, and the row says so; one that is empty or not a number leaves everything as it was.
  const slider = (parent, { label, unit, low, high, least = -Infinity, most = Infinity, step, get, set, title, reached = () => true, stops = true }) => { // `stops`: the simulation pauses while it is moved
    const row = make("div", "row"), name = Object.assign(make("label", "", label), { title: label }), range = make("input"), number = make("input");
    range.type = "range"; number.type = "number"; number.step = range.step = step ?? "any";
    range.min = low; range.max = high; range.title = title ?? "";
    range.setAttribute("aria-label", `${label} ${unit}`); number.setAttribute("aria-label", `${label} ${unit}`);
    const near = 1e-7 * Math.max(Math.abs(low), Math.abs(high)), short = (x) => (Math.abs(x) < near ? 0 : Number(x.toPrecision(5)));
    const said = make("output"), tell = (text) => { said.hidden = !text; said.textContent = text; };
    const write = (x) => {
      const allowed = Math.min(Math.max(x, least), most);
      set(allowed); live.show(); refresh(row);
      tell(allowed !== x ? `${short(x)} is ${x < least ? "below the minimum" : "above the maximum"}: set to ${short(allowed)} ${unit}`
        : reached(x) ? "" : `${short(x)} ${unit} is out of reach of the closed loops: set to ${short(get())} ${unit}`);
    };
    range.addEventListener("input", () => { held = stops; write(Number(range.value)); number.value = short(get()); });
    range.addEventListener("change", () => { held = false; read(); });
    number.addEventListener("change", () => {
      const x = number.valueAsNumber;
      if (Number.isFinite(x)) write(x); else tell("not a number: ignored");
      read(); number.value = short(get());
    });
    number.addEventListener("blur", () => { number.value = short(get()); }); // what was typed and not taken
    number.addEventListener("beforeinput", (e) => { if (e.data && /[^0-9eE+.,-]/.test(e.data)) e.preventDefault(); }); // some browsers let "?" empty the field
    const read = () => { const x = get(); range.value = x; if (document.activeElement !== number) number.value = short(x); };
    said.hidden = true; notices.push(tell);
    row.append(name, range, number, make("span", "", unit), said); parent.append(row);
    rows.push((but) => { if (but !== row) read(); });
    read();
    return { row, read };
  };
  const short = (x) => Number(x.toPrecision(5));
  const refresh = (but) => { for (const f of rows) f(but); };

  const modal = coordinates.filter((c) => c.reach !== undefined), others = coordinates.length - modal.length;
  const joints = section("Joints", `${others}`), modes = modal.length ? section("Modes", `${modal.length} of flexible bodies`, modal.length < 12) : null;
  joints.hidden = !others;
  for (const [list, count] of [[joints, others], [modes, modal.length]]) if (count > 10) list.style.order = 1; // a long list stands below what is short
  const several = new Map();
  for (const c of coordinates) several.set(c.joint, (several.get(c.joint) ?? 0) + 1);
  const reach = page.data.scene.radius || 1;
  for (const c of coordinates) {
    const wide = c.reach ?? (c.unit === "rad" ? Math.PI : 2 * reach), now = physics.get(c);
    slider(c.reach === undefined ? joints : modes, {
      label: several.get(c.joint) > 1 ? `${c.joint} · ${c.name}` : c.joint, unit: c.unit,
      low: c.lower ?? Math.min(-wide, now - wide), high: c.upper ?? Math.max(wide, now + wide),
      least: c.lower ?? undefined, most: c.upper ?? undefined,
      title: c.lower === null && c.upper === null ? "no limits" : `limits ${c.lower === null ? "none" : short(c.lower)} … ${c.upper === null ? "none" : short(c.upper)} ${c.unit}`,
      get: () => physics.get(c), set: (x) => physics.set(c, x),
      reached: (x) => { const gap = physics.get(c) - x; return !physics.hasLoops || Math.abs(c.periodic ? gap - 2 * Math.PI * Math.round(gap / (2 * Math.PI)) : gap) < 1e-4; },
    });
  }

  if (physics.hasHandles) {
    const world = section("Model");
    if ("gravity" in values && description.handles.includes("gravity")) {
      const first = physics.first.gravity, size = Math.hypot(...first), way = size ? Array.from(first, (x) => x / size) : [0, 0, -1];
      slider(world, {
        label: "gravity", unit: "m/s²", low: 0, high: Math.max(20, 2 * size), get: () => way.reduce((s, x, i) => s + x * values.gravity[i], 0),
        set: (x) => (x === size ? values.gravity.set(first) : values.gravity.set(way.map((w) => w * x))),
      });
    }
    slider(world, { label: "damping rate of all joints", unit: "1/s", low: 0, high: 20, least: 0, get: () => values["live_damping.rate"][0], set: (x) => { values["live_damping.rate"][0] = x; } });
    if (description.handles.includes("inertia")) {
      const chosen = make("select"), first = physics.first.inertia, of = () => Math.max(0, chosen.selectedIndex);
      chosen.setAttribute("aria-label", "body whose mass is scaled");
      bodies.forEach((name) => chosen.append(make("option", "", name)));
      world.append(make("p", "", "body"), chosen);
      const factor = () => { // the first of the ten numbers that is not zero tells
        const at = 10 * of(), i = first.subarray(at, at + 10).findIndex((x) => x !== 0);
        return i < 0 ? 1 : values.inertia[at + i] / first[at + i];
      };
      const row = slider(world, {
        label: "mass of this body, scale factor", unit: "×", low: 0.1, high: 5, least: 1e-3, get: factor,
        set: (x) => { for (let i = 10 * of(); i < 10 * of() + 10; i++) values.inertia[i] = x === 1 ? first[i] : x * first[i]; },
      });
      chosen.addEventListener("change", row.read);
      live.choose = (k) => { if (k !== chosen.selectedIndex) { chosen.selectedIndex = k; row.read(); } };
    }
  }

  if (description.parameters.length) {
    const most = 24, laws = section("Parameters", `${description.parameters.length} of forces and controllers`, description.parameters.length < 12);
    const number = (name, place, at, among) => { // `at` says which entry: one for good, or the one `among` these that is chosen
      const x = values[name], first = among.map((i) => physics.first[name][i]), size = Math.max(...first.map(Math.abs)) || 1;
      return slider(laws, {
        label: place ? `${name}[${place}]` : name, unit: "", low: first.some((y) => y < 0) ? -3 * size : 0, high: 3 * size, get: () => x[at()], set: (y) => { x[at()] = y; },
      });
    };
    for (const name of description.parameters) {
      const first = physics.first[name], fixed = description.fixed[name] || [], finite = Array.from(first.keys()).filter((i) => Number.isFinite(first[i]) && !fixed.includes(i));
      const whose = (i) => (description.entries[name] ? description.entries[name][i] : String(i));
      if (finite.length <= most) { finite.forEach((i) => number(name, first.length > 1 ? whose(i) : "", () => i, [i])); continue; }
      const chosen = make("select"); // many numbers share a row
      chosen.setAttribute("aria-label", `entry of ${name} to change`);
      finite.forEach((i) => chosen.append(make("option", "", `${name}[${whose(i)}]`)));
      laws.append(chosen);
      const row = number(name, "chosen", () => finite[Math.max(0, chosen.selectedIndex)], finite);
      chosen.addEventListener("change", row.read);
      slider(laws, { // by the first entry that is not zero
        label: `${name}, scale factor of all`, unit: "×", low: 0, high: 3, get: () => { const i = first.findIndex((y) => y !== 0 && Number.isFinite(y)); return i < 0 ? 1 : values[name][i] / first[i]; },
        set: (y) => finite.forEach((i) => { values[name][i] = y === 1 ? first[i] : y * first[i]; }),
      });
    }
  }

  // ---- energy ----
  const energy = section("Energy", "J"), plot = make("canvas"), numbers = make("div"), trace = [], SPAN = 600;
  plot.id = "energy-plot"; plot.setAttribute("role", "img"); plot.setAttribute("aria-label", "energies over time; the numbers are below"); numbers.id = "energy-numbers"; energy.append(plot, numbers);
  const KINDS = [["total", "#ff8a3d"], ["kinetic", "#4cc9f0"], ["gravity", "#a3e635", "potential energy of gravity"], ["springs", "#f472b6", "energy stored in springs, other force elements and flexible bodies"]];
  const cells = KINDS.map(([name, color, meaning]) => {
    const cell = make("div"), mark = make("i"), text = make("span");
    mark.style.background = color; cell.append(mark, text); numbers.append(cell); cell.title = meaning ?? `${name} energy`;
    return (x) => { text.textContent = `${name} ${page.number(x)}`; };
  });
  const energies = () => { const [kinetic, gravity, stored] = values.energies; return [kinetic + gravity + stored, kinetic, gravity, stored]; };
  const remember = () => { if (live.playing && !held) { trace.push(energies()); if (trace.length > SPAN) trace.shift(); } };
  const watch = () => {
    const now = energies();
    cells.forEach((say, i) => say(now[i]));
    const ratio = window.devicePixelRatio || 1, w = plot.width = Math.max(1, plot.clientWidth * ratio), h = plot.height = Math.max(1, plot.clientHeight * ratio), g = plot.getContext("2d");
    if (trace.length < 2) return;
    let low = Infinity, high = -Infinity;
    for (const row of trace) for (const x of row) { low = Math.min(low, x); high = Math.max(high, x); }
    const size = Math.max(Math.abs(low), Math.abs(high)); // rounding is not magnified
    if (high - low < 1e-12 * size) { low -= 0.1 * size; high += 0.1 * size; }
    const pad = 0.06 * (high - low) || 1, y = (x) => h - h * (x - low + pad) / (high - low + 2 * pad);
    KINDS.forEach(([, color], i) => {
      g.beginPath(); g.strokeStyle = color; g.lineWidth = (i ? 1.2 : 2) * ratio;
      trace.forEach((row, k) => g.lineTo(w * k / (Math.max(trace.length, 120) - 1), y(row[i])));
      g.stroke();
    });
  };

  // ---- facts about the body that was picked ----
  page.suppliers.push((k) => {
    const found = physics.blocks(k);
    live.choose(k);
    if (!found) return [];
    const note = "body axes, [angular; linear]"; // as in timeline.js
    return [
      { label: "P, articulated inertia", note, matrix: found.P },
      ...(found.D.length ? [{ label: "D, hinge inertia", matrix: found.D }, { label: "G, gain P H* D⁻¹", note, matrix: found.G }] : []),
    ];
  });

  // ---- the drag force ----
  // It pulls a point of a body to a place: that of the mouse; or, by the panel, so far from where the centre of mass was.
  let grabbed = null;
  const grab = (k, point) => { grabbed = { k, point: Array.from(point), shift: [0, 0, 0] }; physics.grab(k, grabbed.point, page.scene ? page.scene.deformation.nearest(k, grabbed.point) : null); grabbed.from = physics.handInWorld(k); };
  const pull = (target) => { grabbed.target = Array.from(target); physics.pull(grabbed.target); };
  const letGo = () => { grabbed = null; physics.release(); live.show(); refresh(); };
  if (physics.hasHandles) {
    const hand = section("Drag force", "pulls a body by a spring", false), chosen = make("select"), go = make("button", "", "release");
    chosen.setAttribute("aria-label", "body to pull");
    bodies.forEach((name) => chosen.append(make("option", "", name)));
    hand.append(make("p", "", "body"), chosen);
    ["x", "y", "z"].forEach((axis, i) => slider(hand, {
      label: `target offset along ${axis}`, unit: "m", low: -reach, high: reach, stops: false,
      get: () => (grabbed ? grabbed.shift[i] : 0),
      set: (x) => {
        if (!grabbed) grab(chosen.selectedIndex, page.data.scene.bodies[chosen.selectedIndex].com);
        grabbed.shift[i] = x;
        pull(grabbed.from.map((y, j) => y + grabbed.shift[j]));
        if (!live.playing) physics.follow();
      },
    }));
    go.addEventListener("click", letGo); hand.append(go);
    chosen.addEventListener("change", letGo);
    const choose = live.choose;
    live.choose = (k) => { choose(k); if (!grabbed) chosen.selectedIndex = k; };
  }
  if (page.scene && physics.hasHandles) {
    page.scene.onDrag = {
      start(name, pointInBody) {
        const k = bodies.indexOf(name);
        if (k < 0) return false;
        grab(k, pointInBody);
        return true;
      },
      move: pull,
      end: letGo,
    };
  }
  const pulled = () => {
    if (!grabbed || !grabbed.target) return [];
    const at = physics.handInWorld(grabbed.k), gap = grabbed.target.map((x, i) => x - at[i]);
    return [{ at, vector: gap.map((x) => x * page.scene.arrowUnit), kind: "force", label: "drag force" }];
  };
  page.shows.push((name) => { if (name === "forces" && live.active) showForces(); });
  const force = page.element("live-force");
  force.hidden = !(page.scene && description.contacts.length);
  if (page.scene) force.title = `show or hide contact forces of the last step; an arrow of 0.1 m is ${(0.1 * page.scene.arrowUnit).toPrecision(2)} N`;
  const showForces = () => { page.scene.setArrows(page.scene.shown.forces ? [...physics.touching(), ...pulled()] : []); };

  // ---- time ----
  const MOST = 12; // ms of physics in one picture: slower than that, and the page stays usable
  let before = null, pending = 0, spent = 0, pictures = 0, paced = 0, written = 0;
  page.frame.push((at) => {
    if (!live.active) { before = null; return; }
    const passed = before === null ? 0 : Math.min((at - before) / 1000, 0.1);
    before = at;
    const began = performance.now();
    if (live.playing && !held) {
      pending += Number(speed.value) * passed;
      let steps = Math.floor(pending / dt);
      pending -= steps * dt;
      while (steps > 0 && live.playing && performance.now() - began < MOST) {
        const some = Math.min(steps, 8);
        live.advance(some); steps -= some;
      }
    } else if (grabbed && grabbed.target) physics.follow();
    else { pending = 0; if (!held) return; }
    live.show();
    spent += (performance.now() - began - spent) / Math.min(++pictures, 20);
    remember();
    if (at - written > 90) { written = at; refresh(); watch(); }
    if (at - paced > 500) { paced = at; page.element("pace").textContent = `${spent.toFixed(1)} ms`; }
  });

  play.addEventListener("click", () => live.set(!live.playing));
  page.element("once").addEventListener("click", live.step);
  page.element("again").addEventListener("click", live.reset);
  const keys = [
    [" ", "play or pause", () => live.set(!live.playing)],
    [".", "advance by one time step", live.step],
    ["0", "reset state, model and parameters", live.reset],
    [["<", ">"], "slower or faster", (e) => { speed.selectedIndex = Math.min(Math.max(speed.selectedIndex + (e.key === ">" ? 1 : -1), 0), speed.options.length - 1); }],
  ].map(([keys, what, action]) => ({ keys: [].concat(keys), what, action }));

  // ---- live, or the recording ----
  const hand = page.scene ? page.scene.onDrag : null, supplier = page.suppliers[page.suppliers.length - 1], recorded = page.suppliers.slice(0, -1);
  live.enter = (on) => {
    live.active = on;
    panel.hidden = controls.hidden = !on;
    page.keys = page.keys.filter((k) => !keys.includes(k));
    if (on) page.keys.unshift(...keys);
    page.suppliers = on ? [supplier] : recorded;
    page.gestures = on && hand ? [["drag a body", "pull it; while paused, move it"]] : [];
    if (page.scene) { page.scene.onDrag = on ? hand : null; page.scene.setArrows([]); }
    if (!record) return;
    page.element("recorded-controls").hidden = on;
    if (page.scene) page.scene.show({ paths: !on });
    if (!on) { live.set(false); live.error(""); clock.set(clock.now); }
  };
  if (record) {
    const times = doubles(record.times), q = doubles(record.q), v = doubles(record.v), nq = values.q.length, nv = values.v.length;
    page.element("continue").addEventListener("click", () => {
      setPlaying(false);
      const t = clock.now, i = times.reduce((best, x, k) => (Math.abs(x - t) < Math.abs(times[best] - t) ? k : best), 0);
      physics.reset();
      values.q.set(q.subarray(i * nq, (i + 1) * nq)); values.v.set(v.subarray(i * nv, (i + 1) * nv)); values.t[0] = times[i];
      for (const name of ["q", "v", "t"]) physics.first[name] = values[name].slice(); // where reset goes back to
      trace.length = 0; live.enter(true); live.show(); refresh(); watch(); live.set(true);
      play.focus(); // the button that was pressed is gone
    });
    page.element("return").addEventListener("click", () => { live.enter(false); page.element("continue").focus(); });
  }
  live.show(); watch(); refresh();
  live.enter(!record);
  if (record) clock.set(clock.now);
  else live.set(settings.play && !window.matchMedia("(prefers-reduced-motion: reduce)").matches);
  panel.dataset.ready = "yes";
})();
