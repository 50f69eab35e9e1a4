"use strict";
// PhipsiScene: a mechanism on a canvas, drawn by three.js from a description by scene.py.
//
//   const scene = new PhipsiScene(canvas, description);
//   scene.setPoses(array)    12 numbers per body: rotation row by row (9), position (3), in world axes
//   scene.setArrows([{at, vector, kind, label}])    at in m, vector in N, both in world axes
//   scene.setPaths([{name, points, times, color}])  points: x y z one after the other, in world axes
//   scene.setModes(number, eta)    modal coordinates of description.flexible[number], after setPoses
//   scene.setCoordinates(q)        those of all of them, out of q, and what links are drawn by (links.js)
//   scene.exaggerate(factor)       draws deformations so many times as large (deformation.js)
//   scene.setTime(t)         for solids that are not always there, paths that fade, and links of a recorded run
//   scene.onPick = (name, pointInBody, event) => {}           a click or tap; name null: beside all bodies
//   scene.onDrag = {start(name, pointInBody, pointInWorld), move(pointInWorld), end()}
//   scene.show({shadows, frames, centreOfMass, inertia, axes, forces, paths, loops, labels, bodies})
//   scene.theme("light" | "dark"); scene.resize(); scene.render(); scene.draw(); scene.snapshot()
//
// The world's z need not be up: everything hangs below one group, `world`, that `description.up` turns upright.

const PHIPSI_COLORS = { contact: [1.0, 0.62, 0.02], constraint: [0.62, 0.32, 1.0], force: [0.05, 0.62, 0.95] };
const PHIPSI_THEMES = {
  dark: {
    sky: [0.42, 0.50, 0.64], ground: [0.10, 0.11, 0.14], sun: [1.05, 0.98, 0.90], fill: [0.20, 0.13, 0.08], rim: [0.10, 0.15, 0.24],
    plate: [0.20, 0.26, 0.36, 0.5], line: [0.62, 0.74, 0.92], strong: 0.34, shade: 0.45,
  },
  light: {
    sky: [0.44, 0.48, 0.55], ground: [0.20, 0.20, 0.20], sun: [0.84, 0.80, 0.74], fill: [0.12, 0.10, 0.08], rim: [0.0, 0.0, 0.0],
    plate: [0.80, 0.84, 0.90, 0.55], line: [0.30, 0.38, 0.50], strong: 0.30, shade: 0.28,
  },
};

// ---- shapes of unit size ------------------------------------------------------------------------------------------
const PhipsiShapes = {
  // profile: [radius, height, normal outwards, normal upwards], turned about z
  lathe(profile, sides) {
    const position = [], normal = [], index = [];
    profile.forEach(([radius, height, out, up]) => {
      for (let k = 0; k <= sides; k++) {
        const a = 2 * Math.PI * k / sides;
        position.push(radius * Math.cos(a), radius * Math.sin(a), height); normal.push(out * Math.cos(a), out * Math.sin(a), up);
      }
    });
    for (let i = 0; i + 1 < profile.length; i++) for (let k = 0; k < sides; k++) {
      const a = i * (sides + 1) + k, b = a + sides + 1;
      index.push(a, a + 1, b + 1, a, b + 1, b);
    }
    const shape = new THREE.BufferGeometry();
    shape.setAttribute("position", new THREE.Float32BufferAttribute(position, 3));
    shape.setAttribute("normal", new THREE.Float32BufferAttribute(normal, 3));
    shape.setIndex(index);
    return shape;
  },
  sphere() {
    const profile = Array.from({ length: 21 }, (_, i) => { const a = Math.PI * (i / 20 - 0.5); return [Math.cos(a), Math.sin(a), Math.cos(a), Math.sin(a)]; });
    return this.lathe(profile, 36);
  },
  cylinder() { // radius 1, height from −1 to 1, with softened rims
    const e = 0.045, profile = [[0, -1, 0, -1], [1 - e, -1, 0, -1]];
    for (const side of [-1, 1]) for (let i = 0; i <= 4; i++) {
      const a = Math.PI / 2 * (side < 0 ? i / 4 - 1 : i / 4);
      profile.push([1 - e + e * Math.cos(a), side * (1 - e) + e * Math.sin(a), Math.cos(a), Math.sin(a)]);
    }
    profile.push([1 - e, 1, 0, 1], [0, 1, 0, 1]);
    return this.lathe(profile, 44);
  },
  cone() { return this.lathe([[0, 0, 0, -1], [1, 0, 0, -1], [1, 0, 0.7, 0.7], [0, 1, 0.7, 0.7]], 28); }, // its tip at height 1
  box() { return new THREE.BoxGeometry(2, 2, 2); },
  shaft() { return this.lathe([[1, 0, 1, 0], [1, 1, 1, 0]], 16); }, // radius 1, height from 0 to 1
  ball() { // the mark of a mass centre: octants in two colours
    const shape = this.sphere().toNonIndexed(), at = shape.attributes.position, color = [];
    for (let i = 0; i < at.count; i += 3) {
      let sign = 1;
      for (const get of ["getX", "getY", "getZ"]) sign *= at[get](i) + at[get](i + 1) + at[get](i + 2) < 0 ? -1 : 1;
      for (let k = 0; k < 3; k++) color.push(...(sign > 0 ? [0.02, 0.02, 0.025] : [1.0, 0.85, 0.1]));
    }
    shape.setAttribute("color", new THREE.Float32BufferAttribute(color, 3));
    return shape;
  },
  bytes(text) {
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out.buffer;
  },
  floats: (text) => new Float32Array(PhipsiShapes.bytes(text)),
  // a mesh of a file: corners as int16 of a box, normals as two int8 of an octahedron
  mesh(part) {
    const whole = new Int16Array(this.bytes(part.corners)), folded = new Int8Array(this.bytes(part.normals)), count = whole.length / 3;
    const position = new Float32Array(whole.length), normal = new Float32Array(whole.length);
    for (let i = 0; i < count; i++) {
      for (let k = 0; k < 3; k++) position[3 * i + k] = part.middle[k] + part.step[k] * whole[3 * i + k];
      let x = folded[2 * i] / 127, y = folded[2 * i + 1] / 127;
      const z = 1 - Math.abs(x) - Math.abs(y);
      if (z < 0) [x, y] = [(1 - Math.abs(y)) * (x < 0 ? -1 : 1), (1 - Math.abs(x)) * (y < 0 ? -1 : 1)];
      const size = Math.hypot(x, y, z) || 1;
      normal.set([x / size, y / size, z / size], 3 * i);
    }
    const shape = new THREE.BufferGeometry();
    shape.setAttribute("position", new THREE.BufferAttribute(position, 3));
    shape.setAttribute("normal", new THREE.BufferAttribute(normal, 3));
    const raw = this.bytes(part.triangles);
    shape.setIndex(new THREE.BufferAttribute(count <= 65536 ? new Uint16Array(raw) : new Uint32Array(raw), 1));
    return shape;
  },
};

// ---- materials ----------------------------------------------------------------------------------------------------
// Light from the sky and the sun with a rim, and bright parts pressed softly below white.
function phipsiMaterial(rim, options = {}) {
  const material = new THREE.MeshPhongMaterial({ shininess: 42, ...options });
  material.specular.setRGB(0.05, 0.05, 0.05);
  material.onBeforeCompile = (shader) => {
    shader.uniforms.rimColor = rim;
    shader.fragmentShader = "uniform vec3 rimColor;\n" + shader.fragmentShader.replace("#include <opaque_fragment>", `
      outgoingLight += rimColor * pow(1.0 - max(dot(normal, normalize(vViewPosition)), 0.0), 3.5);
      outgoingLight = outgoingLight / (1.0 + 0.32 * outgoingLight);
      #include <opaque_fragment>`);
  };
  return material;
}
const PHIPSI_FLOOR = {
  vertex: `varying vec2 place; varying vec2 around; uniform float size;
    void main() { vec4 at = modelMatrix * vec4(position, 1.0); place = at.xy; around = position.xy; gl_Position = projectionMatrix * viewMatrix * at; }`,
  fragment: `varying vec2 place; varying vec2 around; uniform float cell, strong; uniform vec4 plate; uniform vec3 line;
    float lines(float width) {
      vec2 g = place / width, d = fwidth(g), near = abs(fract(g - 0.5) - 0.5) / max(d, 1e-6);
      return (1.0 - min(min(near.x, near.y), 1.0)) * (1.0 - smoothstep(0.2, 0.6, max(d.x, d.y)));
    }
    void main() {
      float fade = 1.0 - smoothstep(0.12, 0.85, length(around)), on = strong * max(0.47 * lines(cell), lines(5.0 * cell));
      gl_FragColor = vec4(mix(plate.rgb, line, on / max(on + plate.a * (1.0 - on), 1e-4)), (on + plate.a * (1.0 - on)) * fade);
    }`,
};
const PHIPSI_RIBBON = {
  vertex: `attribute vec3 next; attribute vec2 side; uniform vec2 screen; uniform float width; varying float born, across;
    void main() {
      vec4 a = projectionMatrix * modelViewMatrix * vec4(position, 1.0), b = projectionMatrix * modelViewMatrix * vec4(next, 1.0);
      vec2 along = (b.xy / b.w - a.xy / a.w) * screen;
      vec2 off = length(along) > 1e-5 ? normalize(vec2(-along.y, along.x)) : vec2(0.0);
      gl_Position = a + vec4(off * side.x * width / screen * a.w, 0.0, 0.0);
      born = side.y; across = side.x;
    }`,
  fragment: `varying float born, across; uniform float now, span; uniform vec3 color;
    void main() {
      if (born > now) discard;
      float young = clamp(1.0 - (now - born) / span, 0.0, 1.0), soft = 1.0 - across * across;
      gl_FragColor = vec4(color, young * young * soft * 0.95);
    }`,
};

class PhipsiScene {
  constructor(canvas, description) {
    this.canvas = canvas; this.description = description; this.dirty = true; this.time = -Infinity;
    this.onPick = null; this.onDrag = null; this.bottom = 0; // pixels of the canvas below that controls cover
    this.picked = null; this.arrowUnit = description.arrow_unit || 1;
    this.shown = { shadows: true, frames: false, centreOfMass: false, inertia: false, axes: false, forces: true, paths: true, loops: true, labels: false, bodies: true };
    this.renderer = new THREE.WebGLRenderer({ canvas, antialias: true, alpha: true });
    this.renderer.shadowMap.enabled = true; this.renderer.shadowMap.type = THREE.PCFShadowMap;
    this.renderer.shadowMap.autoUpdate = false; // shadows are drawn again when something is placed, not when the view turns
    this.renderer.setClearColor(0, 0);
    this.scene = new THREE.Scene(); this.world = new THREE.Group(); this.scene.add(this.world);
    const [w, x, y, z] = description.up || [1, 0, 0, 0];
    this.world.quaternion.set(x, y, z, w); this.world.updateMatrixWorld(true);
    this.upright = this.world.matrixWorld.clone(); this.upside = this.upright.clone().invert();
    this.camera = new THREE.PerspectiveCamera(0.62 * 180 / Math.PI, 1, 0.01, 100); this.camera.up.set(0, 0, 1);
    this.rim = { value: new THREE.Color() };
    this._lights(); this._floor(); this._bodies(); this.deformation = new PhipsiDeformation(this); this._overlays(); this.links = new PhipsiLinks(this); this._pointer();
    this.theme("dark"); this.home();
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.resize();
  }

  // ---- what is there ------------------------------------------------------------------------------------------------
  _lights() {
    this.sky = new THREE.HemisphereLight(); this.sky.position.set(0, 0, 1); this.sky.intensity = Math.PI;
    this.sun = new THREE.DirectionalLight(); this.sun.intensity = Math.PI; this.sun.castShadow = true;
    this.fill = new THREE.DirectionalLight(); this.fill.intensity = Math.PI;
    this.fill.position.set(-0.45, 0.55, 0.25);
    const reach = 1.25 * this.description.radius, deep = reach + this.description.depth, eye = this.sun.shadow.camera;
    this.towardSun = new THREE.Vector3(0.45, -0.55, 1.05).normalize().multiplyScalar(2 * deep + reach);
    Object.assign(eye, { left: -reach, right: reach, top: reach, bottom: -reach, near: 0.05 * reach, far: 4 * deep + 2 * reach });
    eye.updateProjectionMatrix();
    this.sun.shadow.mapSize.set(2048, 2048); this.sun.shadow.radius = 4; this.sun.shadow.normalBias = 0.006 * reach; this.sun.shadow.bias = -0.0004;
    this.scene.add(this.sky, this.sun, this.sun.target, this.fill);
  }
  _floor() {
    const d = this.description;
    this.floor = new THREE.Group(); this.floor.visible = d.floor !== null;
    const uniforms = { cell: { value: d.cell }, strong: { value: 0 }, plate: { value: new THREE.Vector4() }, line: { value: new THREE.Vector3() } };
    const make = (material) => { const plate = new THREE.Mesh(new THREE.PlaneGeometry(2, 2), material); plate.scale.setScalar(7 * (d.radius + d.depth)); this.floor.add(plate); return plate; };
    this.grid = make(new THREE.ShaderMaterial({ uniforms, vertexShader: PHIPSI_FLOOR.vertex, fragmentShader: PHIPSI_FLOOR.fragment, transparent: true, depthWrite: false, side: THREE.DoubleSide }));
    this.shade = make(new THREE.ShadowMaterial({ transparent: true, depthWrite: false }));
    this.shade.receiveShadow = true; this.shade.renderOrder = 1; this.shade.scale.setScalar(2.2 * d.radius + d.depth); // as far as shadows reach
    this.scene.add(this.floor);
  }
  _bodies() {
    const d = this.description, matrix = (s) => new THREE.Matrix4().compose(
      new THREE.Vector3(...s.position), new THREE.Quaternion(s.rotation[1], s.rotation[2], s.rotation[3], s.rotation[0]), new THREE.Vector3(...(s.scale || [1, 1, 1])));
    this.local = matrix;
    this.bodies = d.bodies.map((body) => { const group = new THREE.Group(); group.matrixAutoUpdate = false; group.name = body.name; this.world.add(group); return group; });
    this.material = phipsiMaterial(this.rim);
    this.kinds = [];
    for (const kind of ["box", "sphere", "cylinder"]) {
      const solids = d.solids.filter((s) => s.mesh === kind);
      if (!solids.length) continue;
      const many = new THREE.InstancedMesh(PhipsiShapes[kind](), this.material, solids.length);
      many.frustumCulled = false; many.castShadow = many.receiveShadow = true;
      solids.forEach((s, i) => many.setColorAt(i, new THREE.Color().setRGB(...s.color)));
      many.userData.solids = solids; this.world.add(many);
      this.kinds.push({ many, solids, locals: solids.map(matrix) });
    }
    const shapes = (d.meshes || []).map((mesh) => PhipsiShapes.mesh(mesh));
    this.parts = (d.parts || []).map((part) => {
      const opacity = part.opacity === undefined ? 1 : part.opacity, mesh = new THREE.Mesh(shapes[part.mesh], phipsiMaterial(this.rim, { side: THREE.DoubleSide, transparent: opacity < 1, opacity }));
      matrix(part).decompose(mesh.position, mesh.quaternion, mesh.scale);
      mesh.material.color.setRGB(...part.color); mesh.castShadow = opacity > 0.5; mesh.receiveShadow = true;
      mesh.userData.part = part;
      (part.body < 0 ? this.world : this.bodies[part.body]).add(mesh);
      return mesh;
    });
  }
  setModes(which, eta) { this.deformation.set(which, eta); this._placed = false; this.dirty = true; }
  setCoordinates(q) {
    if (!q.length) return;
    (this.description.flexible || []).forEach((one, which) => this.setModes(which, q.slice(one.first, one.first + one.count)));
    this.links.coordinates(q); this._placed = false; this.dirty = true;
  }
  exaggerate(factor) { this.deformation.exaggerate(factor); this._placed = false; this.dirty = true; }
  _overlays() {
    const d = this.description, size = d.radius;
    this.fine = Math.min(1, 2.6 / Math.sqrt(d.bodies.length || 1)); // marks of many bodies are smaller
    this.length = 0.16 * size * this.fine;
    this.over = {}; // groups of marks by what `show` calls them; made when they are first shown
    this.arrows = null; this.paths = new THREE.Group(); this.world.add(this.paths);
    this.labels = document.createElement("div"); this.labels.className = "labels"; this.labels.setAttribute("aria-hidden", "true");
    this.canvas.after(this.labels);
    this.marks = [];
    this._loops();
  }
  _mark(color, options = {}) { // drawn in front of everything, in plain colour
    return new THREE.MeshBasicMaterial({ color: new THREE.Color().setRGB(...color), depthTest: false, transparent: true, opacity: 0.95, toneMapped: false, ...options });
  }
  _stick(direction, length, thick, material) { // an arrow from the origin
    const out = new THREE.Group(), head = 5 * thick;
    const shaft = new THREE.Mesh(this._unit("shaft"), material), tip = new THREE.Mesh(this._unit("cone"), material);
    shaft.scale.set(thick, thick, length - head); tip.scale.set(2.3 * thick, 2.3 * thick, head); tip.position.z = length - head;
    out.add(shaft, tip); out.renderOrder = 5; shaft.renderOrder = tip.renderOrder = 5;
    out.quaternion.setFromUnitVectors(new THREE.Vector3(0, 0, 1), new THREE.Vector3(...direction).normalize());
    return out;
  }
  _unit(kind) { this.units = this.units || {}; return this.units[kind] = this.units[kind] || PhipsiShapes[kind](); }
  _make(what) { // the marks of one kind, one group per body
    const d = this.description, thin = 0.006 * d.radius * Math.max(this.fine, 0.4), out = [], put = (k, ...things) => { (k < 0 ? this.world : this.bodies[k]).add(...things); out.push(...things); };
    if (what === "frames") {
      const colors = [[0.9, 0.09, 0.07], [0.10, 0.62, 0.10], [0.08, 0.25, 0.95]].map((c) => this._mark(c));
      for (let k = -1; k < d.bodies.length; k++) colors.forEach((m, i) => put(k, this._stick([0, 1, 2].map((j) => +(i === j)), k < 0 ? 1.4 * this.length : this.length, thin, m)));
      for (const frame of d.frames || []) {
        const group = new THREE.Group(); this.local(frame).decompose(group.position, group.quaternion, group.scale);
        colors.forEach((m, i) => group.add(this._stick([0, 1, 2].map((j) => +(i === j)), 0.6 * this.length, 0.7 * thin, m)));
        put(frame.body, group);
      }
    } else if (what === "centreOfMass") {
      const total = d.bodies.reduce((sum, b) => sum + b.mass, 0), material = this._mark([1, 1, 1], { vertexColors: true });
      const ball = (radius) => { const m = new THREE.Mesh(this._unit("ball"), material); m.scale.setScalar(radius); m.renderOrder = 6; return m; };
      d.bodies.forEach((b, k) => { if (b.mass > 0) { const m = ball(0.022 * d.radius * Math.max(0.45, Math.cbrt(b.mass / total))); m.position.set(...b.com); put(k, m); } });
      this.whole = ball(0.038 * d.radius); put(-1, this.whole);
    } else if (what === "inertia") {
      d.bodies.forEach((b, k) => {
        if (!(b.mass > 0)) return;
        const m = new THREE.Mesh(this._unit("sphere"), phipsiMaterial(this.rim, { transparent: true, opacity: 0.42, depthTest: false }));
        m.material.color.setHSL(0.47, 0.8, 0.42); m.renderOrder = 4;
        m.position.set(...b.com); m.quaternion.set(b.principal[1], b.principal[2], b.principal[3], b.principal[0]);
        m.scale.set(...b.ellipsoid.map((x) => Math.max(x, 0.004 * d.radius))); put(k, m);
      });
    } else if (what === "axes") {
      const turning = this._mark([1.0, 0.25, 0.03]), sliding = this._mark([0.0, 0.55, 0.75]);
      d.bodies.forEach((b, k) => b.joint.axes.forEach(({ axis, turns }) => {
        const stick = this._stick(axis, 1.5 * this.length, 0.9 * thin, turns ? turning : sliding);
        stick.position.set(...axis).multiplyScalar(-0.6 * this.length); put(k, stick);
      }));
    }
    return out;
  }
  _loops() { // a line between the two ends of every constraint, which a closed loop makes a point
    const loops = this.description.loops || [];
    if (!loops.length) return;
    const shape = new THREE.BufferGeometry();
    shape.setAttribute("position", new THREE.BufferAttribute(new Float32Array(6 * loops.length), 3));
    this.loopLines = new THREE.LineSegments(shape, new THREE.LineBasicMaterial({ color: new THREE.Color().setRGB(...PHIPSI_COLORS.constraint) }));
    this.loopLines.frustumCulled = false; this.loopLines.renderOrder = 5; this.world.add(this.loopLines);
  }

  // ---- what moves ---------------------------------------------------------------------------------------------------
  setPoses(poses) {
    this.poses = poses; this._pose();
    this._placed = false; this.dirty = true;
  }
  _pose() {
    const { poses } = this;
    this.bodies.forEach((group, k) => {
      const p = poses.subarray ? poses.subarray(12 * k, 12 * k + 12) : poses.slice(12 * k, 12 * k + 12);
      group.matrix.set(p[0], p[1], p[2], p[9], p[3], p[4], p[5], p[10], p[6], p[7], p[8], p[11], 0, 0, 0, 1);
    });
  }
  setTime(t) { this.time = t; this.links.time(t); this._placed = false; this.dirty = true; }
  setArrows(arrows) { this.arrowList = arrows; this._arrowed = false; this.dirty = true; }
  setPaths(paths) {
    for (const old of [...this.paths.children]) { old.geometry.dispose(); old.material.dispose(); this.paths.remove(old); }
    paths.forEach((path, which) => {
      const points = path.points, count = points.length / 3, values = [], next = [], side = [];
      const born = path.times || Float64Array.from({ length: count }, (_, i) => i - count);
      for (let i = 0; i + 1 < count; i++) for (const [k, s] of [[0, -1], [0, 1], [1, 1], [0, -1], [1, 1], [1, -1]]) {
        const a = i + k, last = a + 1 >= count, c = last ? a - 1 : a + 1; // at the far end "next" lies one further, so that the ribbon does not flip
        for (let j = 0; j < 3; j++) { values.push(points[3 * a + j]); next.push(last ? 2 * points[3 * a + j] - points[3 * c + j] : points[3 * c + j]); }
        side.push(s, born[a]);
      }
      const shape = new THREE.BufferGeometry();
      shape.setAttribute("position", new THREE.Float32BufferAttribute(values, 3));
      shape.setAttribute("next", new THREE.Float32BufferAttribute(next, 3));
      shape.setAttribute("side", new THREE.Float32BufferAttribute(side, 2));
      const color = path.color || [[1.0, 0.54, 0.24], [0.30, 0.79, 0.94], [0.98, 0.45, 0.72], [0.65, 0.90, 0.35]][which % 4];
      const uniforms = { screen: { value: new THREE.Vector2(1, 1) }, width: { value: 5 }, now: { value: 0 }, span: { value: path.span || (path.times ? 1 : count + 1) }, color: { value: new THREE.Vector3(...color) } };
      const ribbon = new THREE.Mesh(shape, new THREE.ShaderMaterial({ uniforms, vertexShader: PHIPSI_RIBBON.vertex, fragmentShader: PHIPSI_RIBBON.fragment, transparent: true, depthWrite: false, side: THREE.DoubleSide }));
      ribbon.frustumCulled = false; ribbon.renderOrder = 3; ribbon.userData.timed = !!path.times; this.paths.add(ribbon);
    });
    this.dirty = true;
  }
  isShown(thing) { return !thing.shown || thing.shown.some(([from, to]) => from <= this.time && this.time <= to); }
  _place() {
    if (this.poses && this.deformation.isExaggerated) { this._pose(); this.deformation.carry(); }
    const at = new THREE.Matrix4(), nothing = new THREE.Matrix4().makeScale(0, 0, 0);
    for (const { many, solids, locals } of this.kinds) {
      many.visible = this.shown.bodies;
      solids.forEach((s, i) => {
        if (!this.isShown(s)) at.copy(nothing);
        else if (s.body < 0) at.copy(locals[i]);
        else at.multiplyMatrices(this.bodies[s.body].matrix, locals[i]);
        many.setMatrixAt(i, at);
      });
      many.instanceMatrix.needsUpdate = true; many.boundingSphere = null;
    }
    for (const mesh of this.parts) mesh.visible = this.shown.bodies && this.isShown(mesh.userData.part);
    if (this.loopLines) {
      const values = this.loopLines.geometry.attributes.position, point = new THREE.Vector3();
      this.description.loops.forEach((loop, i) => loop.ends.forEach((end, k) => {
        point.set(...end.position);
        if (end.body >= 0) point.applyMatrix4(this.bodies[end.body].matrix);
        values.setXYZ(2 * i + k, ...(this.isShown(loop) ? point.toArray() : [0, 0, 0]));
      }));
      values.needsUpdate = true; this.loopLines.visible = this.shown.loops;
    }
    if (this.whole) {
      const sum = new THREE.Vector3(), one = new THREE.Vector3();
      let total = 0;
      this.description.bodies.forEach((b, k) => { sum.addScaledVector(one.set(...b.com).applyMatrix4(this.bodies[k].matrix), b.mass); total += b.mass; });
      this.whole.position.copy(sum.multiplyScalar(1 / (total || 1)));
    }
    this.links.place();
    this.world.updateMatrixWorld(true); this._placed = this.renderer.shadowMap.needsUpdate = true;
  }
  _placeArrows() {
    const list = (this.arrowList || []).filter((a) => Math.hypot(...a.vector) > 0), d = this.description, thick = 0.012 * d.radius;
    if (this.arrows && this.arrows.room < list.length) { this.world.remove(this.arrows.shaft, this.arrows.tip); this.arrows.shaft.dispose(); this.arrows.tip.dispose(); this.arrows = null; }
    if (!this.arrows && list.length) {
      const room = Math.max(16, 2 * list.length), material = phipsiMaterial(this.rim, { depthTest: false, transparent: true });
      const make = (kind) => { const m = new THREE.InstancedMesh(this._unit(kind), material, room); m.frustumCulled = false; m.renderOrder = 7; this.world.add(m); return m; };
      this.arrows = { room, shaft: make("shaft"), tip: make("cone") };
    }
    if (!this.arrows) return;
    const z = new THREE.Vector3(), turn = new THREE.Quaternion(), at = new THREE.Vector3(), color = new THREE.Color(), m = new THREE.Matrix4(), up = new THREE.Vector3(0, 0, 1);
    let n = 0;
    for (const arrow of list) {
      z.set(...arrow.vector);
      const size = Math.min(z.length() / this.arrowUnit, 1.5 * d.radius);
      if (!(size > 0.3 * thick)) continue;
      z.normalize(); turn.setFromUnitVectors(up, z); at.set(...arrow.at);
      const head = Math.min(5 * thick, 0.5 * size), shaft = size - head;
      this.arrows.shaft.setMatrixAt(n, m.compose(at, turn, new THREE.Vector3(thick, thick, shaft)));
      this.arrows.tip.setMatrixAt(n, m.compose(at.addScaledVector(z, shaft), turn, new THREE.Vector3(2.4 * thick, 2.4 * thick, head)));
      color.setRGB(...(PHIPSI_COLORS[arrow.kind] || PHIPSI_COLORS.force));
      this.arrows.shaft.setColorAt(n, color); this.arrows.tip.setColorAt(n, color); n++;
    }
    for (const mesh of [this.arrows.shaft, this.arrows.tip]) {
      mesh.count = n; mesh.visible = this.shown.forces && n > 0; mesh.instanceMatrix.needsUpdate = true;
      if (mesh.instanceColor) mesh.instanceColor.needsUpdate = true;
    }
    this._arrowed = true;
  }

  // ---- how it is seen -----------------------------------------------------------------------------------------------
  show(what) {
    Object.assign(this.shown, what);
    for (const name of ["frames", "centreOfMass", "inertia", "axes"]) {
      if (this.shown[name] && !this.over[name]) this.over[name] = this._make(name);
      for (const thing of this.over[name] || []) thing.visible = this.shown[name];
    }
    this.sun.castShadow = this.shown.shadows; this.shade.visible = this.shown.shadows; this.paths.visible = this.shown.paths;
    this._placed = this._arrowed = false; this.dirty = true;
  }
  theme(name) {
    const t = PHIPSI_THEMES[name] || PHIPSI_THEMES.dark, u = this.grid.material.uniforms;
    this.sky.color.setRGB(...t.sky); this.sky.groundColor.setRGB(...t.ground); this.sun.color.setRGB(...t.sun); this.fill.color.setRGB(...t.fill);
    this.rim.value.setRGB(...t.rim); this.shade.material.opacity = t.shade;
    u.plate.value.set(...t.plate); u.line.value.set(...t.line); u.strong.value = t.strong;
    this.dirty = true;
  }
  home() { // the whole motion fits above the controls
    const d = this.description, tall = this.canvas.clientHeight || 1, free = Math.max(0.5, 1 - this.bottom / tall), tan = Math.tan(0.31) * free;
    const aspect = (this.canvas.clientWidth || 2) / (free * tall), wide = Math.hypot(d.half[0], d.half[1]);
    const [turn, tilt] = d.look || [-0.85, 0.30]; // of a planar mechanism, along the normal of its plane
    const s = Math.sin(turn), c = Math.cos(turn), size = (...v) => v.reduce((sum, x, i) => sum + Math.abs(x) * d.half[i], 0);
    const right = size(-s, c, 0), up = size(-c * Math.sin(tilt), -s * Math.sin(tilt), Math.cos(tilt)), deep = size(c * Math.cos(tilt), s * Math.cos(tilt), Math.sin(tilt));
    const away = d.look ? deep + 1.15 * Math.max(up / tan, right / (tan * aspect)) : 0.55 * wide + 1.12 * Math.max(d.half[2] / tan, 0.9 * up / tan, wide / (tan * aspect));
    this.view = { turn, tilt, away, target: new THREE.Vector3() };
    this.dirty = true;
  }
  turn(dx, dy) { this.view.turn -= dx; this.view.tilt = Math.min(Math.max(this.view.tilt + dy, -1.5), 1.5); this.dirty = true; }
  zoom(factor) { const r = this.description.radius; this.view.away = Math.min(Math.max(this.view.away * factor, 0.15 * r), 14 * r); this.dirty = true; }
  pan(dx, dy) { // in pixels of the screen
    const step = 0.64 * this.view.away / (this.canvas.clientHeight || 1), e = this.camera.matrixWorld.elements;
    for (let i = 0; i < 3; i++) this.view.target.setComponent(i, this.view.target.getComponent(i) + step * (dy * e[4 + i] - dx * e[i]));
    this.dirty = true;
  }
  _look() {
    const d = this.description, middle = new THREE.Vector3(...d.center);
    if (d.follow >= 0) middle.add(new THREE.Vector3().setFromMatrixPosition(this.bodies[d.follow].matrixWorld)); // a floating base is followed
    const at = middle.clone().add(this.view.target), c = Math.cos(this.view.tilt), v = this.view;
    this.camera.position.set(at.x + v.away * c * Math.cos(v.turn), at.y + v.away * c * Math.sin(v.turn), at.z + v.away * Math.sin(v.tilt));
    this.camera.up.set(0, 0, 1); if (c < 1e-3) this.camera.up.set(-Math.cos(v.turn), -Math.sin(v.turn), 0); // straight from above
    this.camera.near = 0.02 * v.away; this.camera.far = v.away + 40 * (d.radius + d.depth); this.camera.lookAt(at); this.camera.updateProjectionMatrix(); this.camera.updateMatrixWorld();
    this.sun.position.copy(middle).add(this.towardSun); this.sun.target.position.copy(middle); this.fill.target = this.sun.target;
    this.fill.position.set(middle.x - 0.45, middle.y + 0.55, middle.z + 0.25);
    if (d.floor !== null) this.floor.position.set(middle.x, middle.y, d.floor);
  }
  resize() {
    const w = Math.max(1, this.canvas.clientWidth), h = Math.max(1, this.canvas.clientHeight);
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio || 1, 2)); this.renderer.setSize(w, h, false);
    this.camera.aspect = w / h; this.camera.setViewOffset(w, h, 0, this.bottom / 2, w, h); this.dirty = true;
  }
  draw() { if (this.dirty) this.render(); }
  render() {
    this.dirty = false;
    if (!this._placed) this._place();
    if (!this._arrowed) this._placeArrows();
    this._look();
    const screen = this.renderer.getDrawingBufferSize(new THREE.Vector2());
    for (const ribbon of this.paths.children) { const u = ribbon.material.uniforms; u.screen.value.copy(screen); u.width.value = 5 * this.renderer.getPixelRatio(); u.now.value = ribbon.userData.timed ? this.time : 0; }
    this.renderer.render(this.scene, this.camera);
    this._label();
  }
  snapshot() { this.render(); return this.canvas.toDataURL("image/png"); }
  _label() {
    const d = this.description, wanted = [];
    if (this.shown.labels) d.bodies.forEach((b, k) => { if (!b.hidden) wanted.push([b.name, k, b.com]); });
    if (this.shown.labels && this.shown.loops) for (const loop of d.loops || []) if (this.isShown(loop)) wanted.push([loop.name, loop.ends[0].body, loop.ends[0].position]);
    while (this.marks.length < wanted.length) { const mark = document.createElement("span"); this.labels.append(mark); this.marks.push(mark); }
    const at = new THREE.Vector3(), w = this.canvas.clientWidth, h = this.canvas.clientHeight, placed = [];
    this.marks.forEach((mark, i) => {
      mark.hidden = i >= wanted.length;
      if (mark.hidden) return;
      const [name, body, place] = wanted[i];
      at.set(...place).applyMatrix4(body < 0 ? this.world.matrixWorld : this.bodies[body].matrixWorld).project(this.camera);
      mark.textContent = name.length > 40 ? `${name.slice(0, 19)}…${name.slice(-20)}` : name; mark.hidden = at.z > 1;
      if (mark.hidden) return;
      const x = (at.x + 1) / 2 * w, wide = 14 + 6.6 * mark.textContent.length; // about as wide as it is, without asking for a layout
      let y = (1 - at.y) / 2 * h;
      for (let tries = 0; tries < 40; tries++) { // below those that are already there
        const below = placed.find((other) => Math.abs(other.y - y) < 18 && x < other.x + other.wide && other.x < x + wide);
        if (!below) break;
        y = below.y + 18;
      }
      placed.push({ x, y, wide });
      mark.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
    });
  }

  // ---- mouse, pen and touch -----------------------------------------------------------------------------------------
  _ray(event) {
    const box = this.canvas.getBoundingClientRect(), ray = new THREE.Raycaster();
    ray.setFromCamera(new THREE.Vector2(2 * (event.clientX - box.left) / box.width - 1, 1 - 2 * (event.clientY - box.top) / box.height), this.camera);
    return ray;
  }
  hit(event) { // {body, pointInBody, pointInWorld} of what is nearest below a pointer, or null
    if (!this._placed) this._place();
    this._look();
    const things = [...this.kinds.map((k) => k.many), ...this.parts.filter((p) => p.visible)];
    for (const found of this._ray(event).intersectObjects(things, false)) {
      const data = found.object.userData, body = data.part ? data.part.body : data.solids[found.instanceId].body;
      if (body < 0) continue;
      const inBody = found.point.clone().applyMatrix4(this.bodies[body].matrixWorld.clone().invert());
      return { body, pointInBody: inBody.toArray(), pointInWorld: found.point.clone().applyMatrix4(this.upside).toArray(), point: found.point };
    }
    return null;
  }
  machine(event) { // the number of the machine element below a pointer that no body hides, or −1
    if (!this._placed) this._place();
    this._look();
    const ray = this._ray(event), found = this.links.hit(ray);
    if (!found) return -1;
    const own = this.parts.filter((p) => p.visible && p.userData.part.machine === undefined), [near] = ray.intersectObjects([...this.kinds.map((k) => k.many), ...own], false);
    return near && near.distance < found.distance - 1e-9 ? -1 : found.number;
  }
  pick(body) { // marks a body by name; null: none
    this.picked = body;
    const k = this.description.bodies.findIndex((b) => b.name === body), lift = (color, on) => (on ? color.lerp(new THREE.Color(1.0, 0.42, 0.08), 0.55) : color);
    for (const { many, solids } of this.kinds) { solids.forEach((s, i) => many.setColorAt(i, lift(new THREE.Color().setRGB(...s.color), s.body === k && k >= 0))); many.instanceColor.needsUpdate = true; }
    for (const mesh of this.parts) { mesh.material.color.setRGB(...mesh.userData.part.color); lift(mesh.material.color, mesh.userData.part.body === k && k >= 0); }
    this.dirty = true;
  }
  _pointer() {
    const canvas = this.canvas, touches = new Map();
    let pinch = null, moved = 0, dragged = null;
    const drop = (e) => {
      const was = touches.delete(e.pointerId); pinch = null;
      if (dragged && was) { dragged = null; this.onDrag.end(); this.dirty = true; }
      if (was && e.type === "pointerup" && moved < 5 && !touches.size) {
        const found = this.hit(e), name = found && this.description.bodies[found.body].name;
        if (this.onPick) this.onPick(name, found && found.pointInBody, e);
      }
    };
    canvas.addEventListener("pointerdown", (e) => {
      try { canvas.setPointerCapture(e.pointerId); } catch { /* a pointer that is already gone */ }
      touches.set(e.pointerId, [e.clientX, e.clientY]); pinch = null; moved = touches.size > 1 ? 99 : 0;
      if (dragged && touches.size > 1) { dragged = null; this.onDrag.end(); }
      if (this.onDrag && touches.size === 1 && !e.shiftKey && e.button === 0) {
        const found = this.hit(e);
        if (found && this.onDrag.start(this.description.bodies[found.body].name, found.pointInBody, found.pointInWorld) !== false)
          dragged = new THREE.Plane().setFromNormalAndCoplanarPoint(this.camera.getWorldDirection(new THREE.Vector3()), found.point);
      }
    });
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, drop);
    canvas.addEventListener("pointermove", (e) => {
      const last = touches.get(e.pointerId);
      if (!last) return;
      const dx = e.clientX - last[0], dy = e.clientY - last[1];
      moved += Math.abs(dx) + Math.abs(dy); touches.set(e.pointerId, [e.clientX, e.clientY]);
      if (dragged) {
        const point = this._ray(e).ray.intersectPlane(dragged, new THREE.Vector3());
        if (point) this.onDrag.move(point.applyMatrix4(this.upside).toArray());
      } else if (touches.size === 2) {
        const [a, b] = [...touches.values()], now = { size: Math.hypot(a[0] - b[0], a[1] - b[1]), x: (a[0] + b[0]) / 2, y: (a[1] + b[1]) / 2 };
        if (pinch) { this.zoom(pinch.size / (now.size || 1)); this.pan(now.x - pinch.x, now.y - pinch.y); }
        pinch = now;
      } else if (e.shiftKey || (e.buttons & 6)) this.pan(dx, dy);
      else this.turn(0.006 * dx, 0.006 * dy);
    });
    canvas.addEventListener("contextmenu", (e) => e.preventDefault());
    canvas.addEventListener("wheel", (e) => { e.preventDefault(); this.zoom(Math.exp(0.0012 * e.deltaY)); }, { passive: false });
    canvas.addEventListener("dblclick", () => this.home());
    canvas.addEventListener("webglcontextrestored", () => { this._placed = false; this.dirty = true; }); // with the shadows
  }
}
