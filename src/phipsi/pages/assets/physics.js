// The physics of a live page: the compiled programs of a simulator, as WebAssembly.
//
//   const physics = await PhipsiPhysics.load(description, bytes);   // from live_page.py
//   physics.advance(16);                  // steps; throws an Error with `status` if one fails
//   physics.values.q, .v, .t              // views of the module's memory
//   physics.look();                       // then values.poses, values.energies are of this state
//
// Nothing here knows of a page: tests run it in Node.
"use strict";

class PhipsiPhysics {
  static async load(description, bytes) {
    const { instance } = await WebAssembly.instantiate(bytes, {});
    return new PhipsiPhysics(description, instance.exports);
  }

  constructor(description, exports) {
    this.description = description;
    this.dt = description.dt;
    this.values = {};
    const { places, functions, work } = description;
    for (const [name, [at, count]] of Object.entries(places)) {
      this.values[name] = new Float64Array(exports.memory.buffer, at, count);
    }
    this._functions = {};
    for (const [name, f] of Object.entries(functions)) {
      const addresses = [...f.arrays.map((a) => places[a][0]), work];
      this._functions[name] = (n) => exports[f.rollout](n, ...addresses);
    }
    this.first = Object.fromEntries(Object.entries(description.first).map(([name, x]) => [name, doubles(x)]));
    this.hasModes = description.moreRows; // or rotors on skew axes: blocks of bodies have more than six rows
    this.hasLoops = "close" in functions;
    this.hasHandles = description.handles.includes("live_hand");
    this.reset();
  }

  // everything as it was when the page was written
  reset() {
    for (const [name, x] of Object.entries(this.first)) this.values[name].set(x);
  }

  // call a function n times; the error of one that fails has its status
  _call(name, n = 1) {
    const status = this._functions[name](n);
    if (!status) return;
    const text = this.description.statuses[status & 7] ?? "unknown";
    const bodies = this.description.bodies;
    const body = bodies[(status >> 3) - 1];
    throw Object.assign(new Error(body === undefined ? text : `${text} (${body})`), { status });
  }

  // whether something acts that the simulator itself does not have
  get isChanged() {
    if (!this.hasHandles) return false;
    const v = this.values, first = this.first;
    const same = (name) => !(name in v) || v[name].every((x, i) => x === first[name][i]);
    return v["live_hand.stiffness"][0] !== 0 || v["live_damping.rate"][0] !== 0 ||
      !same("gravity") || !same("inertia");
  }

  // take steps: those of the simulator, bit for bit, as long as nothing is changed
  advance(steps) {
    if (steps > 0) this._call(this.isChanged ? "live" : "run", steps);
  }

  // poses of the bodies (16 numbers each, row by row) and energies: kinetic, of gravity, stored
  look() {
    this._call("look");
    return this.values;
  }

  // forces of contacts in the last step: [{at, vector, kind, label}], m and N, world axes
  touching() {
    if (!("touch" in this._functions)) return [];
    this._call("touch");
    const at = this.values["contact points"], force = this.values["contact forces"];
    return this.description.contacts.map((label, i) => ({ at: at.slice(3 * i, 3 * i + 3), vector: force.slice(3 * i, 3 * i + 3), kind: "contact", label }))
      .filter(({ vector }) => vector.some((x) => x !== 0));
  }

  // 12 numbers for every body: rotation row by row, position
  poses(out) {
    const X = this.values.poses, n = X.length / 16;
    out = out ?? new Float64Array(12 * n);
    for (let k = 0; k < n; k++) {
      for (let i = 0; i < 3; i++) {
        for (let j = 0; j < 3; j++) out[12 * k + 3 * i + j] = X[16 * k + 4 * i + j];
        out[12 * k + 9 + i] = X[16 * k + 4 * i + 3];
      }
    }
    return out;
  }

  // P (6, 6), D (r, r), G (6, r) of the articulated body k, as rows; null where they have more rows
  blocks(k) {
    if (this.hasModes) return null;
    this._call("blocks");
    const { P, D, G } = this.values, { v, bodies } = this.description;
    const [first, end] = v[k], r = end - first, nv = G.length / 6;
    const wide = Math.round(Math.sqrt(D.length / bodies.length));
    const rows = (count, width, at) =>
      Array.from({ length: count }, (_, i) => Array.from({ length: width }, (_, j) => at(i, j)));
    return {
      P: rows(6, 6, (i, j) => P[36 * k + 6 * i + j]),
      D: rows(r, r, (i, j) => D[wide * wide * k + wide * i + j]),
      G: rows(6, r, (i, j) => G[nv * i + first + j]),
    };
  }

  // ---- states

  save() {
    return this.description.states.concat("step").map((name) => this.values[name].slice());
  }

  restore(saved) {
    this.description.states.concat("step").forEach((name, i) => this.values[name].set(saved[i]));
  }

  // give a coordinate a value, at rest; with loops, as near to it as they allow
  set(coordinate, value) {
    const { q, v } = this.values;
    this._apart();
    if (coordinate.periodic) value += 2 * Math.PI * Math.round((read(q, coordinate) - value) / (2 * Math.PI)); // the nearest turn
    v.fill(0);
    if (this.hasLoops) this._slide(coordinate, value);
    else write(q, coordinate, value);
  }

  // a state that no step led to: nothing has pushed yet
  _apart() {
    this.values["contact.impulses"]?.fill(0);
  }

  // Loops are closed in the metric of the mass matrix; the joint that is moved counts as heavy, and so do modes: bodies stay as bent as they are.
  _slide(coordinate, value) {
    const { q, v, Jr } = this.values, rotors = Jr.slice();
    const wide = Math.round(Math.sqrt(Jr.length / this.description.bodies.length));
    const heavy = HEAVY * this._size();
    for (const i of coordinate.rates) Jr[coordinate.body * wide * wide + i * (wide + 1)] += heavy;
    this._weighModes(heavy, wide);
    let longest = LONGEST;
    for (let i = 0; i < CLOSINGS; i++) {
      const from = read(q, coordinate), rest = value - from, saved = this.save();
      if (Math.abs(rest) < 1e-9) break;
      write(q, coordinate, from + Math.sign(rest) * Math.min(Math.abs(rest), longest));
      try {
        this._call("close");
      } catch (error) { // too far to close again
        this.restore(saved);
        longest /= 4;
      }
      v.fill(0);
    }
    Jr.set(rotors);
  }

  _weighModes(heavy, wide) {
    const { modes, v } = this.description;
    for (const m of modes) for (let j = 0; j < m.count; j++) this.values.Jr[m.body * wide * wide + (m.v - v[m.body][0] + j) * (wide + 1)] += heavy;
  }

  // the largest of the joints' articulated inertias
  _size() {
    this._call("blocks");
    const { D, inverse } = this.values, nv = this.values.v.length;
    if (this.hasModes) return Array.from({ length: nv }, (_, i) => 1 / inverse[i * (nv + 1)]).reduce((m, x) => Math.max(m, x), 0);
    return D.reduce((m, x) => Math.max(m, x), 0);
  }

  // of one that is periodic, between −π and π
  get(coordinate) {
    const x = read(this.values.q, coordinate);
    return coordinate.periodic ? x - 2 * Math.PI * Math.round(x / (2 * Math.PI)) : x;
  }

  // ---- the drag force

  // pull a point of body k, given in its axes, towards a place in the world; of a body that deforms, `shape` has where the
  // point is at rest and how each mode moves it, {rest, moves}
  grab(k, point, shape = null) {
    const { values } = this, moves = values["live_hand.moves"];
    values["live_hand.body"].fill(0);
    values["live_hand.body"][k] = 1;
    values["live_hand.point"].set(shape ? shape.rest : point);
    moves?.fill(0);
    if (shape) moves.set(shape.moves.flat(), 3 * this.description.modes.find((m) => m.body === k).row);
    this._call("blocks");
    this._mass = this.hasModes ? this._massAtHand(k) : 0;
    if (!this.hasModes) for (let i = 3; i < 6; i++) this._mass += values.P[36 * k + 7 * i] / 3;
    this.pull(this.handInWorld(k));
    this.soften();
  }

  // the velocity of the dragged point on body k (3, nv), body axes, for unit rates
  _rowsAtHand(k) {
    const { jacobians, v } = this.values, nv = v.length, r = this._handInBody(), moves = this.values["live_hand.moves"];
    return [0, 1, 2].map((i) => {
      const a = (i + 1) % 3, b = (i + 2) % 3, row = new Float64Array(nv);
      for (let j = 0; j < nv; j++) {
        const at = (n) => jacobians[(6 * k + n) * nv + j];
        row[j] = at(3 + i) + at(a) * r[b] - at(b) * r[a];
      }
      for (const m of this.description.modes) for (let j = 0; j < m.count; j++) row[m.v + j] += moves[3 * (m.row + j) + i];
      return row;
    });
  }

  // the compliance at the dragged point, from ℳ⁻¹ and the rows of the point's velocity; and how far bodies give way to a force there, m/N
  _massAtHand(k) {
    const { inverse, v } = this.values, nv = v.length;
    let mobility = 0;
    this._give = 0;
    for (const row of this._rowsAtHand(k)) {
      for (let j = 0; j < nv; j++) for (let l = 0; l < nv; l++) mobility += row[j] * inverse[j * nv + l] * row[l] / 3;
      let gives = 0;
      for (const m of this.description.modes)
        for (let j = 0; j < m.count; j++) for (let l = 0; l < m.count; l++) gives += row[m.v + j] * m.compliance[j * m.count + l] * row[m.v + l];
      this._give = Math.max(this._give, gives);
    }
    return mobility > 1e-12 ? 1 / mobility : 1;
  }

  // where the dragged point of body k is, in the world
  handInWorld(k) {
    return this.pointInWorld(k, this._handInBody());
  }

  _handInBody() {
    const { values } = this, moves = values["live_hand.moves"], point = Array.from(values["live_hand.point"]);
    for (const m of this.description.modes)
      for (let j = 0; j < m.count; j++) for (let i = 0; i < 3; i++) point[i] += values.q[m.q + j] * moves[3 * (m.row + j) + i];
    return point;
  }

  // the spring of the drag force: a fraction of a second, and hardly any overshoot; softer than a body that deforms, which it would bend too far
  soften() {
    const rate = 2 * Math.PI * 1.5, { values } = this;
    const firm = this._mass * rate * rate, soft = this._give > 0 ? Math.min(firm, SOFT / this._give) : firm;
    values["live_hand.stiffness"][0] = soft;
    values["live_hand.damping"][0] = soft / rate;
  }

  pull(target) {
    this.values["live_hand.target"].set(target);
  }

  release() {
    const { values } = this;
    for (const name of ["body", "stiffness", "damping"]) values[`live_hand.${name}`].fill(0);
  }

  pointInWorld(k, point) {
    this.look();
    const X = this.values.poses;
    return [0, 1, 2].map((i) => {
      const row = 16 * k + 4 * i;
      return X[row] * point[0] + X[row + 1] * point[1] + X[row + 2] * point[2] + X[row + 3];
    });
  }

  // move towards the target while paused: inverse kinematics in the metric of the mass
  // matrix. Each step starts from rest, without gravity, with a spring as stiff as the step allows.
  follow(steps = 40) {
    if (this.hasModes && this.hasLoops && this._moving().length) { this._followInLoops(); return; }
    const { values } = this, kept = this.save(), gravity = values.gravity?.slice();
    values["live_hand.stiffness"][0] = 0.5 * this._mass / (this.dt * this.dt);
    values["live_hand.damping"][0] = 0;
    values.gravity?.fill(0);
    try {
      for (let i = 0; i < steps; i++) {
        values.v.fill(0);
        this._call("live");
        this._limit();
        this._stiffen(kept);
      }
      const q = values.q.slice();
      this.restore(kept);
      this._apart();
      values.q.set(q);
      values.v.fill(0);
      if (this.hasLoops) this._close(kept);
      values.v.fill(0);
    } catch (error) {
      this.restore(kept);
    } finally {
      if (gravity) values.gravity.set(gravity);
      this.soften();
    }
  }

  // deformations stay as they are while the joints follow the target, if there are joints; loops are closed again at the end
  _stiffen(kept) {
    const { q, v } = this.values, { modes, states } = this.description, before = kept[states.indexOf("q")];
    if (modes.reduce((n, m) => n + m.count, 0) === v.length) return;
    for (const m of modes) q.set(before.subarray(m.q, m.q + m.count), m.q);
  }

  // coordinates of joints that go where their rates say; those of rotations in space and of planes do not
  _moving() {
    return this.description.coordinates.filter((c) => c.reach === undefined && !c.curved);
  }

  // Bodies that deform, in loops: in a step of the simulator modes would give way before joints do. Here joints move as their masses
  // alone let them, modes stay, and loops are closed after each move; one that leads away from the target is taken back.
  _followInLoops(moves = 16) {
    const { values } = this, kept = this.save(), k = values["live_hand.body"].indexOf(1), target = Array.from(values["live_hand.target"]);
    const gap = () => { const at = this.handInWorld(k); return target.map((x, i) => x - at[i]); };
    let near = gap(), share = 1;
    this._apart();
    values.v.fill(0);
    for (let i = 0; i < moves && Math.hypot(...near) > 1e-9; i++) {
      const saved = this.save(), change = this._towards(k, near), most = Math.max(...change.map(Math.abs)), by = Math.min(share, LONGEST / (most || 1));
      for (const c of this._moving()) {
        const x = values.q[c.at] + by * change[this.description.v[c.body][0] + c.rates[0]];
        values.q[c.at] = Math.min(c.upper ?? Infinity, Math.max(c.lower ?? -Infinity, x));
      }
      let now = null;
      try { this._close(kept); values.v.fill(0); now = gap(); } catch (error) { now = null; }
      if (now && Math.hypot(...now) < Math.hypot(...near)) { near = now; share *= 2; } else { this.restore(saved); share /= 4; }
    }
  }

  // changes (nv,) of joints as a pull along the gap (3,) causes them while everything else stays, W J* gap, as far as they lead nearest
  _towards(k, gap) {
    this._call("blocks");
    const nv = this.values.v.length, W = this.values.inverse.slice(), X = this.values.poses, moving = new Set(this._moving().map((c) => this.description.v[c.body][0] + c.rates[0]));
    for (let s = 0; s < nv; s++) { // what stays is eliminated: W = 1 / ℳ of what moves
      if (moving.has(s)) continue;
      const row = W.slice(s * nv, (s + 1) * nv), pivot = row[s];
      for (let a = 0; a < nv; a++) { const f = row[a] / pivot; for (let b = 0; b < nv; b++) W[a * nv + b] -= f * row[b]; }
    }
    const pull = [0, 1, 2].map((i) => gap.reduce((sum, x, j) => sum + X[16 * k + 4 * j + i] * x, 0)), J = this._rowsAtHand(k);
    const times = (A, x) => A.map((row) => row.reduce((sum, y, i) => sum + y * x[i], 0));
    const effort = Array.from({ length: nv }, (_, j) => pull[0] * J[0][j] + pull[1] * J[1][j] + pull[2] * J[2][j]);
    const rates = times(Array.from({ length: nv }, (_, a) => W.subarray(a * nv, (a + 1) * nv)), effort), moved = times(J, rates);
    const size = moved.reduce((sum, x) => sum + x * x, 0), along = moved.reduce((sum, x, i) => sum + x * pull[i], 0);
    return rates.map((x) => (size > 0 ? x * along / size : 0));
  }

  _close(kept) {
    const { Jr } = this.values, rotors = Jr.slice();
    this._stiffen(kept);
    if (this.hasModes) this._weighModes(HEAVY * this._size(), Math.round(Math.sqrt(Jr.length / this.description.bodies.length)));
    try { this._call("close"); } finally { Jr.set(rotors); }
  }

  _limit() {
    if (this.hasLoops) return;
    const { q } = this.values;
    for (const c of this.description.coordinates) {
      if (c.axis === undefined) q[c.at] = Math.min(c.upper ?? Infinity, Math.max(c.lower ?? -Infinity, q[c.at]));
    }
  }
}

const SOFT = 0.3; // stiffness of the drag force, of that of a body that deforms
const LONGEST = 0.1; // rad or m that a coordinate moves before its loops are closed again
const CLOSINGS = 60;
const HEAVY = 1e6; // how much heavier a joint is that stays where it is put

function doubles(text) {
  return new Float64Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
}

// A coordinate is an entry of q; or, of a rotation in space, a component of its rotation vector.
function read(q, c) {
  return c.axis === undefined ? q[c.at] : rotationVector(q, c.at)[c.axis];
}

function write(q, c, value) {
  if (c.axis === undefined) {
    q[c.at] = value;
    return;
  }
  const u = rotationVector(q, c.at);
  u[c.axis] = value;
  const angle = Math.hypot(...u), s = angle > 1e-12 ? Math.sin(angle / 2) / angle : 0.5;
  q[c.at] = Math.cos(angle / 2);
  for (let i = 0; i < 3; i++) q[c.at + 1 + i] = s * u[i];
}

function rotationVector(q, at) {
  const sign = q[at] < 0 ? -1 : 1, w = sign * q[at];
  const u = [0, 1, 2].map((i) => sign * q[at + 1 + i]), s = Math.hypot(...u);
  const factor = s > 1e-12 ? 2 * Math.atan2(s, w) / s : 2;
  return u.map((x) => factor * x);
}

if (typeof module !== "undefined") module.exports = { PhipsiPhysics };
