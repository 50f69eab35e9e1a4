"use strict";
// PhipsiDeformation: the bodies of a scene that modes bend, from description.flexible and description.ports (deformed_shapes.py).
//
//   deformation.set(number, eta)        modal coordinates of description.flexible[number]: its nodes move by Σ modes[j] eta[j]
//   deformation.exaggerate(factor)      draws deformations so many times as large
//   deformation.carry()                 moves what sits on ports by the part of a deformation that is exaggerated
//   deformation.nearest(body, point)    displacements of the node next to a point in body axes, three numbers per mode; null: rigid
//
// A body with triangles is a surface; one with segments, tubes along them; one with nodes alone, a cloud of octahedra.
class PhipsiDeformation {
  constructor(scene) {
    this.scene = scene; this.factor = 1; this.ports = scene.description.ports || [];
    this.bodies = (scene.description.flexible || []).map((one) => this._made(one));
  }
  _made(one) {
    const nodes = PhipsiShapes.floats(one.nodes), modes = PhipsiShapes.floats(one.modes);
    const out = { one, nodes, modes, eta: new Float64Array(one.count), from: [], mesh: null };
    if (!nodes.length) return out;
    const position = [], normal = [], index = [], sides = 14, a = new THREE.Vector3(), x = new THREE.Vector3(), y = new THREE.Vector3(), z = new THREE.Vector3();
    const corner = (node, n, r) => { out.from.push(node); for (let i = 0; i < 3; i++) position.push(nodes[3 * node + i] + r * n.getComponent(i)); normal.push(n.x, n.y, n.z); };
    for (let s = 0; s < one.segments.length; s += 2) {
      const ends = [one.segments[s], one.segments[s + 1]], first = out.from.length;
      z.fromArray(nodes, 3 * ends[1]).sub(a.fromArray(nodes, 3 * ends[0])).normalize();
      x.set(...(Math.abs(z.z) < 0.9 ? [0, 0, 1] : [1, 0, 0])).cross(z).normalize(); y.crossVectors(z, x);
      for (const node of ends) for (let k = 0; k < sides; k++) { const t = 2 * Math.PI * k / sides; corner(node, a.copy(x).multiplyScalar(Math.cos(t)).addScaledVector(y, Math.sin(t)), one.radius); }
      for (let k = 0; k < sides; k++) { const p = first + k, q = first + (k + 1) % sides; index.push(p, q, q + sides, p, q + sides, p + sides); }
    }
    if (one.triangles.length) {
      const first = out.from.length;
      for (let node = 0; node < nodes.length / 3; node++) corner(node, a.set(0, 0, 1), 0);
      for (const node of one.triangles) index.push(first + node);
    } else if (!one.segments.length) for (let node = 0; node < nodes.length / 3; node++) {
      const first = out.from.length;
      for (const n of [[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]]) corner(node, a.set(...n), 0.5 * one.radius);
      for (let k = 0; k < 4; k++) index.push(first + k, first + (k + 1) % 4, first + 4, first + (k + 1) % 4, first + k, first + 5);
    }
    const shape = new THREE.BufferGeometry();
    shape.setAttribute("position", new THREE.Float32BufferAttribute(position, 3));
    shape.setAttribute("normal", new THREE.Float32BufferAttribute(normal, 3));
    shape.setIndex(index);
    out.bends = one.triangles.length > 0; out.rest = Float32Array.from(position);
    const mesh = out.mesh = new THREE.Mesh(shape, phipsiMaterial(this.scene.rim, { side: THREE.DoubleSide, flatShading: out.bends })); // thin plates have sharp edges
    mesh.material.color.setRGB(...one.color); mesh.castShadow = mesh.receiveShadow = true; mesh.frustumCulled = false;
    mesh.userData.part = one; this.scene.bodies[one.body].add(mesh); this.scene.parts.push(mesh);
    return out;
  }
  get isExaggerated() { return this.factor !== 1 && this.ports.length > 0; }
  exaggerate(factor) {
    const was = this.isExaggerated;
    this.factor = factor;
    if (was && !this.isExaggerated) this.scene._pose();
    this.bodies.forEach((_, which) => this._bend(which));
  }
  set(which, eta) { this.bodies[which].eta.set(eta); this._bend(which); }
  _bend(which) {
    const { one, mesh, modes, rest, from, nodes, eta } = this.bodies[which];
    if (!mesh) return;
    const at = mesh.geometry.attributes.position, count = nodes.length, move = new Float32Array(count);
    eta.forEach((e, j) => { const x = this.factor * e; if (x) for (let i = 0; i < count; i++) move[i] += x * modes[j * count + i]; });
    if (one.shortens) this._shorten(move, this.bodies[which]);
    from.forEach((node, c) => at.setXYZ(c, rest[3 * c] + move[3 * node], rest[3 * c + 1] + move[3 * node + 1], rest[3 * c + 2] + move[3 * node + 2]));
    at.needsUpdate = true;
    mesh.geometry.boundingSphere = null;
  }
  // A bent beam is shorter: along each segment by half the square of its true slope. Second-order motion is not exaggerated, here and at ports.
  _shorten(move, { one, nodes }) {
    const back = new Float32Array(move.length);
    for (let s = 0; s < one.segments.length; s += 2) {
      const a = 3 * one.segments[s], b = 3 * one.segments[s + 1], along = [0, 1, 2].map((i) => nodes[b + i] - nodes[a + i]), h = Math.hypot(...along);
      const rise = [0, 1, 2].map((i) => (move[b + i] - move[a + i]) / this.factor), stretch = rise.reduce((sum, x, i) => sum + x * along[i] / h, 0);
      const square = rise.reduce((sum, x, i) => sum + (x - stretch * along[i] / h) ** 2, 0);
      for (let i = 0; i < 3; i++) back[b + i] = back[a + i] - along[i] / h * square / (2 * h);
    }
    for (let i = 0; i < move.length; i++) move[i] += back[i];
  }
  // A port turns by the quaternion (1, g), g = ½ turns η, and moves by Σ moves η. What it carries is where the poses say; the rest of an
  // exaggerated deformation, from η to factor · η, is a rigid motion of everything beyond the port.
  carry() {
    const { description, bodies } = this.scene, beyond = new Map(this.ports.map((p) => [p.body, p])), moved = [];
    const turn = (p, eta, s) => { const g = [0, 1, 2].map((i) => 0.5 * s * eta.reduce((sum, e, j) => sum + e * p.turns[3 * j + i], 0)); return new THREE.Quaternion(...g, 1).normalize(); };
    description.bodies.forEach((body, k) => {
      const p = beyond.get(k), above = body.parent >= 0 ? moved[body.parent] : null;
      let own = above;
      if (p) {
        const { eta, one } = this.bodies[p.on], shift = [0, 1, 2].map((i) => eta.reduce((sum, e, j) => sum + e * p.moves[3 * j + i], 0));
        const here = new THREE.Vector3(...p.position).add(new THREE.Vector3(...shift)), there = new THREE.Vector3(...shift).multiplyScalar(this.factor - 1).add(here);
        const more = turn(p, eta, this.factor).multiply(turn(p, eta, 1).invert()), at = new THREE.Matrix4().makeRotationFromQuaternion(more).setPosition(there.sub(here.applyQuaternion(more)));
        const pose = new THREE.Matrix4().copy(above ? above.clone().invert().multiply(bodies[one.body].matrix) : bodies[one.body].matrix); // of the flexible body as it truly is
        own = pose.clone().multiply(at).multiply(pose.clone().invert());
        if (above) own.premultiply(above);
      }
      moved.push(own);
      if (own) bodies[k].matrix.premultiply(own);
    });
  }
  nearest(body, point) {
    const found = this.bodies.find((b) => b.one.body === body && b.mesh);
    if (!found) return null;
    const { nodes, modes, eta } = found, count = nodes.length;
    let best = 0, least = Infinity;
    for (let n = 0; n < count / 3; n++) {
      let gap = 0;
      for (let i = 0; i < 3; i++) gap += (nodes[3 * n + i] + this.factor * eta.reduce((sum, e, j) => sum + e * modes[j * count + 3 * n + i], 0) - point[i]) ** 2;
      if (gap < least) { least = gap; best = n; }
    }
    return { first: found.one.first, rest: [0, 1, 2].map((i) => nodes[3 * best + i]), moves: Array.from(eta, (_, j) => [0, 1, 2].map((i) => modes[j * count + 3 * best + i])) };
  }
}
