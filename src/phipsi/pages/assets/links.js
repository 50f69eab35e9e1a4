"use strict";
// PhipsiLinks: relations between joints as rods to one knot, and coils that follow their elements (machine_elements.py).
//
//   links.time(t)            values at a time of a recorded run: residuals of constraints, twists of elastic couplings
//   links.coordinates(q)     the same from coordinates, for relations that are linear in them
//   links.values[number]     those of description.machines[number], one per row; null: not known
//   links.place()            moves rods and coils to where the bodies are
//   links.hit(ray)           {number, distance} of the element below a pointer, or null
class PhipsiLinks {
  constructor(scene) {
    this.scene = scene; this.machines = scene.description.machines || []; this.values = this.machines.map(() => null);
    const read = PhipsiShapes.floats, recorded = scene.description.times;
    this.times = recorded && this.machines.length ? read(recorded) : null;
    this.recorded = this.machines.map((m) => (m.values && this.times ? read(m.values) : null));
    this.rods = []; // [number of the machine, number of its end]
    this.machines.forEach((m, i) => (m.ends || []).forEach((_, k) => this.rods.push([i, k])));
    this.knots = this.machines.map((m, i) => i).filter((i) => (this.machines[i].ends || []).length > 0);
    const material = scene._mark(PHIPSI_COLORS.constraint, { depthTest: true, opacity: 0.9 });
    const make = (kind, count) => { const m = new THREE.InstancedMesh(scene._unit(kind), material, count); m.frustumCulled = false; m.renderOrder = 5; scene.world.add(m); return m; };
    if (this.rods.length) { this.sticks = make("shaft", this.rods.length); this.balls = make("sphere", this.rods.length + this.knots.length); }
    this.coils = scene.parts.filter((mesh) => mesh.userData.part.coil).map((mesh) => {
      const at = mesh.geometry.attributes, { machine, coil } = mesh.userData.part;
      return { mesh, machine, coil, position: Float32Array.from(at.position.array), normal: Float32Array.from(at.normal.array), now: 0 };
    });
  }
  get twists() { return this.coils.length > 0; }
  time(t) {
    if (!this.times) return;
    let low = 0, high = this.times.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (this.times[middle] <= t) low = middle; else high = middle; }
    const gap = this.times[high] - this.times[low], s = gap > 0 ? Math.min(Math.max((t - this.times[low]) / gap, 0), 1) : 0;
    this.recorded.forEach((all, i) => {
      if (!all) return;
      const n = all.length / this.times.length;
      this.values[i] = Array.from({ length: n }, (_, k) => (1 - s) * all[low * n + k] + s * all[high * n + k]);
    });
  }
  coordinates(q) {
    this.machines.forEach((m, i) => {
      const rows = m.linear || [];
      this.values[i] = rows.length ? rows.map((r) => r.at.reduce((sum, at, k) => sum + r.by[k] * q[at], -r.offset)) : null;
    });
  }
  _ends(m) {
    const { bodies } = this.scene;
    return m.ends.map((end) => { const p = new THREE.Vector3(...end.position); return end.body < 0 ? p : p.applyMatrix4(bodies[end.body].matrix); });
  }
  _knot(m, ends) { // beside the middle of its ends, so that the rods are seen; a straight one is between two ends
    const middle = ends.reduce((sum, p) => sum.add(p), new THREE.Vector3()).multiplyScalar(1 / ends.length);
    if (m.straight && ends.length === 2) return middle;
    const { radius } = this.scene.description, far = Math.max(...ends.map((p) => p.distanceTo(middle))), along = ends[ends.length - 1].clone().sub(ends[0]);
    const up = new THREE.Vector3(0, 0, 1).transformDirection(this.scene.upside), across = up.clone().cross(along).length() < 0.3 * along.length() ? new THREE.Vector3(1, 0, 0).transformDirection(this.scene.upside) : up;
    return middle.addScaledVector(across, Math.max(0.3 * far, 0.12 * radius));
  }
  place() {
    if (this.sticks) {
      const full = 0.008 * this.scene.description.radius, up = new THREE.Vector3(0, 0, 1), turn = new THREE.Quaternion(), at = new THREE.Matrix4(), still = new THREE.Quaternion();
      let rod = 0, ball = 0;
      for (const i of this.knots) {
        const m = this.machines[i], ends = this._ends(m), knot = this._knot(m, ends), there = +this.scene.isShown(m), thick = there * full;
        for (const p of ends) {
          const way = knot.clone().sub(p), length = there * way.length();
          turn.setFromUnitVectors(up, length > 0 ? way.normalize() : up);
          this.sticks.setMatrixAt(rod++, at.compose(p, turn, new THREE.Vector3(thick, thick, length)));
          this.balls.setMatrixAt(ball++, at.compose(p, still, new THREE.Vector3(1, 1, 1).multiplyScalar(2 * thick)));
        }
        this.balls.setMatrixAt(ball++, at.compose(knot, still, new THREE.Vector3(1, 1, 1).multiplyScalar((m.straight ? 1 : 2.6) * thick)));
      }
      for (const mesh of [this.sticks, this.balls]) { mesh.instanceMatrix.needsUpdate = true; mesh.boundingSphere = null; mesh.visible = this.scene.shown.loops; }
    }
    for (const one of this.coils) this._twist(one);
  }
  _twist(one) {
    const value = this.values[one.machine], by = value ? one.coil.scale * value[0] * this.scene.deformation.factor : 0;
    if (by === one.now) return;
    one.now = by;
    const at = one.mesh.geometry.attributes;
    for (let i = 0; i < one.position.length; i += 3) {
      const [x, y, z] = one.position.subarray(i, i + 3), [u, v, w] = one.normal.subarray(i, i + 3), s = Math.min(Math.max(z / one.coil.length, 0), 1);
      const c = Math.cos(one.coil.slides ? 0 : s * by), d = Math.sin(one.coil.slides ? 0 : s * by);
      at.position.array.set([c * x - d * y, d * x + c * y, z + (one.coil.slides ? s * by : 0)], i);
      at.normal.array.set([c * u - d * v, d * u + c * v, w], i);
    }
    at.position.needsUpdate = at.normal.needsUpdate = true; one.mesh.geometry.boundingSphere = null;
  }
  hit(ray) {
    const parts = this.scene.parts.filter((mesh) => mesh.visible && mesh.userData.part.machine !== undefined), rods = this.sticks && this.sticks.visible ? [this.sticks, this.balls] : [];
    const [found] = ray.intersectObjects([...parts, ...rods], false);
    if (!found) return null;
    if (found.object.userData.part) return { number: found.object.userData.part.machine, distance: found.distance };
    if (found.object === this.sticks) return { number: this.rods[found.instanceId][0], distance: found.distance };
    let first = 0;
    for (const i of this.knots) { first += this.machines[i].ends.length + 1; if (found.instanceId < first) return { number: i, distance: found.distance }; }
    return null;
  }
}
