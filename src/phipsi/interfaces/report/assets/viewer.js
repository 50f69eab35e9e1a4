"use strict";
// The animation: rigid solids with a shadow on the floor, drawn with WebGL 2 and nothing else.
// Data: times (f), poses (f, n, 7) as [w x y z, x y z] of every body, solids, trails; z is up.
const data = JSON.parse(document.getElementById("data").textContent);
const floats = (text) => {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Float32Array(bytes.buffer);
};

// ---- time, shared by the animation and the plots ------------------------------------------------
const clock = {
  now: data.start, playing: false, listeners: [],
  set(t) {
    this.now = Math.min(Math.max(t, data.start), data.end);
    this.listeners.forEach((f) => f(this.now));
  },
};

// ---- matrices, column by column -------------------------------------------------------------------
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const minus = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const unit = (a) => { const n = Math.hypot(...a) || 1; return [a[0] / n, a[1] / n, a[2] / n]; };
function times(a, b) {
  const out = new Float32Array(16);
  for (let c = 0; c < 4; c++) for (let r = 0; r < 4; r++) {
    let sum = 0;
    for (let k = 0; k < 4; k++) sum += a[4 * k + r] * b[4 * c + k];
    out[4 * c + r] = sum;
  }
  return out;
}
function lookAt(eye, target, up) {
  const z = unit(minus(eye, target)), x = unit(cross(up, z)), y = cross(z, x);
  return new Float32Array([x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0,
    -dot(x, eye), -dot(y, eye), -dot(z, eye), 1]);
}
function perspective(angle, aspect, near, far) {
  const f = 1 / Math.tan(angle / 2), d = 1 / (near - far);
  return new Float32Array([f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) * d, -1, 0, 0, 2 * far * near * d, 0]);
}
function orthographic(size, near, far) {
  return new Float32Array([1 / size, 0, 0, 0, 0, 1 / size, 0, 0, 0, 0, -2 / (far - near), 0,
    0, 0, -(far + near) / (far - near), 1]);
}
function rigid(w, x, y, z, px, py, pz) {
  return new Float32Array([
    1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y), 0,
    2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x), 0,
    2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y), 0, px, py, pz, 1]);
}

// ---- shapes of unit size, as [position, normal] per vertex ------------------------------------------
function lathe(profile, sides) { // profile: [radius, height, normal outwards, normal upwards]
  const out = [];
  const point = (p, a) => [p[0] * Math.cos(a), p[0] * Math.sin(a), p[1], p[2] * Math.cos(a), p[2] * Math.sin(a), p[3]];
  for (let i = 0; i + 1 < profile.length; i++) for (let k = 0; k < sides; k++) {
    const a = 2 * Math.PI * k / sides, b = 2 * Math.PI * (k + 1) / sides;
    const [p, q, r, s] = [point(profile[i], a), point(profile[i], b), point(profile[i + 1], a), point(profile[i + 1], b)];
    out.push(...p, ...q, ...s, ...p, ...s, ...r);
  }
  return new Float32Array(out);
}
function sphere() {
  const profile = [];
  for (let i = 0; i <= 20; i++) {
    const a = Math.PI * (i / 20 - 0.5);
    profile.push([Math.cos(a), Math.sin(a), Math.cos(a), Math.sin(a)]);
  }
  return lathe(profile, 36);
}
function cylinder() { // radius 1, height from −1 to 1, with softened rims
  const e = 0.045, profile = [[0, -1, 0, -1], [1 - e, -1, 0, -1]];
  for (let i = 0; i <= 4; i++) { const a = Math.PI / 2 * (i / 4 - 1); profile.push([1 - e + e * Math.cos(a), -1 + e + e * Math.sin(a), Math.cos(a), Math.sin(a)]); }
  for (let i = 0; i <= 4; i++) { const a = Math.PI / 2 * (i / 4); profile.push([1 - e + e * Math.cos(a), 1 - e + e * Math.sin(a), Math.cos(a), Math.sin(a)]); }
  profile.push([1 - e, 1, 0, 1], [0, 1, 0, 1]);
  return lathe(profile, 44);
}
function cone() { // radius 1 at height 0, its tip at height 1
  return lathe([[0, 0, 0, -1], [1, 0, 0, -1], [1, 0, 0.7, 0.7], [0, 1, 0.7, 0.7]], 28);
}
function box() { // half edges 1
  const out = [];
  for (let axis = 0; axis < 3; axis++) for (const side of [-1, 1]) {
    const n = [0, 0, 0]; n[axis] = side;
    const u = [0, 0, 0], w = [0, 0, 0]; u[(axis + 1) % 3] = 1; w[(axis + 2) % 3] = side;
    const corner = (a, b) => [0, 1, 2].map((i) => n[i] + a * u[i] + b * w[i]).concat(n);
    const [p, q, r, s] = [corner(-1, -1), corner(1, -1), corner(1, 1), corner(-1, 1)];
    out.push(...p, ...q, ...r, ...p, ...r, ...s);
  }
  return new Float32Array(out);
}

// ---- shaders -----------------------------------------------------------------------------------------
const SOLID_VERTEX = `#version 300 es
layout(location=0) in vec3 position; layout(location=1) in vec3 normal;
uniform mat4 model, camera, light; uniform vec3 scale;
out vec3 world, facing; out vec3 shadowed;
void main() {
  vec4 at = model * vec4(position * scale, 1.0);
  world = at.xyz; facing = mat3(model) * normalize(normal / scale);
  vec4 s = light * at; shadowed = s.xyz * 0.5 + 0.5;
  gl_Position = camera * at;
}`;
const SHADOW_FUNCTION = `
uniform mediump sampler2DShadow map;
float lit(vec3 at, float bias) {
  if (at.z > 1.0 || any(lessThan(at.xy, vec2(0.0))) || any(greaterThan(at.xy, vec2(1.0)))) return 1.0;
  float sum = 0.0, texel = 1.0 / float(textureSize(map, 0).x);
  for (int i = -2; i <= 2; i++) for (int j = -2; j <= 2; j++)
    sum += texture(map, vec3(at.xy + vec2(i, j) * texel * 1.4, at.z - bias));
  return sum / 25.0;
}`;
const SOLID_FRAGMENT = `#version 300 es
precision highp float;
in vec3 world, facing, shadowed; out vec4 result;
uniform vec3 color, eye, sun; uniform float opacity;
${SHADOW_FUNCTION}
void main() {
  vec3 n = normalize(facing), view = normalize(eye - world), half_way = normalize(view + sun);
  float toward = max(dot(n, sun), 0.0);
  float light = toward * lit(shadowed, 0.0012 + 0.004 * (1.0 - toward));
  vec3 sky = mix(vec3(0.10, 0.11, 0.14), vec3(0.42, 0.50, 0.64), n.z * 0.5 + 0.5);
  vec3 fill = vec3(0.20, 0.13, 0.08) * max(dot(n, normalize(vec3(-sun.x, -sun.y, 0.25))), 0.0);
  float rim = pow(1.0 - max(dot(n, view), 0.0), 3.5);
  vec3 c = color * (sky + fill + light * vec3(1.05, 0.98, 0.90));
  c += light * 0.28 * pow(max(dot(n, half_way), 0.0), 42.0) + rim * vec3(0.10, 0.15, 0.24);
  c = c / (1.0 + 0.32 * c);
  result = vec4(pow(c, vec3(1.0 / 2.2)), 1.0) * opacity;
}`;
const DEPTH_FRAGMENT = `#version 300 es
precision mediump float; out vec4 result; void main() { result = vec4(1.0); }`;
const FLOOR_VERTEX = `#version 300 es
layout(location=0) in vec3 position;
uniform mat4 camera, light; uniform vec3 center; uniform float size;
out vec3 world, shadowed;
void main() {
  world = center + position * size; vec4 s = light * vec4(world, 1.0);
  shadowed = s.xyz * 0.5 + 0.5; gl_Position = camera * vec4(world, 1.0);
}`;
const FLOOR_FRAGMENT = `#version 300 es
precision highp float;
in vec3 world, shadowed; out vec4 result;
uniform vec3 center; uniform float size, cell;
${SHADOW_FUNCTION}
float lines(float width) {
  vec2 g = world.xy / width, d = fwidth(g), near = abs(fract(g - 0.5) - 0.5) / max(d, 1e-6);
  return (1.0 - min(min(near.x, near.y), 1.0)) * (1.0 - smoothstep(0.2, 0.6, max(d.x, d.y)));
}
void main() {
  float away = length(world.xy - center.xy) / size, fade = 1.0 - smoothstep(0.12, 0.85, away);
  float line = max(0.16 * lines(cell), 0.34 * lines(5.0 * cell));
  float shade = 0.62 * (1.0 - lit(shadowed, 0.0015));
  vec4 plate = vec4(vec3(0.20, 0.26, 0.36) * 0.5, 0.5);
  vec4 c = plate * (1.0 - shade) + vec4(0.0, 0.0, 0.0, 0.35 * shade);
  c = c * (1.0 - line) + vec4(vec3(0.62, 0.74, 0.92) * line, line);
  result = c * fade;
}`;
const TRAIL_VERTEX = `#version 300 es
layout(location=0) in vec3 position; layout(location=1) in vec3 next; layout(location=2) in vec2 side_time;
uniform mat4 camera; uniform vec2 screen; uniform float width;
out float born, across;
void main() {
  vec4 a = camera * vec4(position, 1.0), b = camera * vec4(next, 1.0);
  vec2 along = (b.xy / b.w - a.xy / a.w) * screen;
  vec2 off = length(along) > 1e-5 ? normalize(vec2(-along.y, along.x)) : vec2(0.0);
  gl_Position = a + vec4(off * side_time.x * width / screen * a.w, 0.0, 0.0);
  born = side_time.y; across = side_time.x;
}`;
const TRAIL_FRAGMENT = `#version 300 es
precision highp float;
in float born, across; out vec4 result; uniform float now, span; uniform vec3 color;
void main() {
  if (born > now) discard;
  float young = clamp(1.0 - (now - born) / span, 0.0, 1.0), soft = 1.0 - across * across;
  float a = young * young * soft * 0.95; result = vec4(color * a, a);
}`;

// ---- the viewer ----------------------------------------------------------------------------------------
function makeViewer(canvas) {
  const gl = canvas.getContext("webgl2", { antialias: true, alpha: true, premultipliedAlpha: true });
  if (!gl) return null;
  const scene = data.scene, frames = floats(scene.times), poses = floats(scene.poses), n = scene.bodies;
  const program = (vertex, fragment) => {
    const out = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text); gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(out, shader);
    }
    gl.linkProgram(out);
    if (!gl.getProgramParameter(out, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(out));
    const names = {}, count = gl.getProgramParameter(out, gl.ACTIVE_UNIFORMS);
    for (let i = 0; i < count; i++) { const name = gl.getActiveUniform(out, i).name; names[name] = gl.getUniformLocation(out, name); }
    return { out, at: names };
  };
  const buffer = (values, sizes) => {
    const array = gl.createVertexArray(); gl.bindVertexArray(array);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer()); gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    const stride = sizes.reduce((a, b) => a + b, 0);
    let offset = 0;
    sizes.forEach((size, i) => { gl.enableVertexAttribArray(i); gl.vertexAttribPointer(i, size, gl.FLOAT, false, 4 * stride, 4 * offset); offset += size; });
    return { array, count: values.length / stride };
  };
  const solid = program(SOLID_VERTEX, SOLID_FRAGMENT), depth = program(SOLID_VERTEX, DEPTH_FRAGMENT);
  const floor = program(FLOOR_VERTEX, FLOOR_FRAGMENT), trail = program(TRAIL_VERTEX, TRAIL_FRAGMENT);
  const meshes = { box: buffer(box(), [3, 3]), sphere: buffer(sphere(), [3, 3]), cylinder: buffer(cylinder(), [3, 3]), cone: buffer(cone(), [3, 3]) };
  const plate = buffer(new Float32Array([-1, -1, 0, 1, -1, 0, 1, 1, 0, -1, -1, 0, 1, 1, 0, -1, 1, 0]), [3]);
  const ribbons = scene.trails.map((one) => {
    const points = floats(one.points), values = [], born = floats(scene.trail_times);
    for (let i = 0; i + 1 < born.length; i++) for (const [k, side] of [[0, -1], [0, 1], [1, 1], [0, -1], [1, 1], [1, -1]]) {
      // at the far end "next" lies one further, so that the ribbon does not flip
      const a = i + k, b = Math.min(a + 1, born.length - 1), c = b === a ? a - 1 : b;
      const at = points.subarray(3 * a, 3 * a + 3), to = points.subarray(3 * c, 3 * c + 3);
      const next = b === a ? [2 * at[0] - to[0], 2 * at[1] - to[1], 2 * at[2] - to[2]] : to;
      values.push(...at, ...next, side, born[a]);
    }
    return { ...buffer(new Float32Array(values), [3, 3, 2]), color: one.color };
  });
  gl.bindVertexArray(null);

  const MAP = 2048, map = gl.createTexture(), target = gl.createFramebuffer();
  gl.bindTexture(gl.TEXTURE_2D, map);
  gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, MAP, MAP);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_COMPARE_MODE, gl.COMPARE_REF_TO_TEXTURE);
  for (const side of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, side, gl.LINEAR);
  for (const side of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, side, gl.CLAMP_TO_EDGE);
  gl.bindFramebuffer(gl.FRAMEBUFFER, target);
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, map, 0);
  gl.drawBuffers([gl.NONE]);
  gl.bindFramebuffer(gl.FRAMEBUFFER, null);

  const locals = scene.solids.map((s) => rigid(...s.rotation, ...s.position));
  const bodies = Array.from({ length: n }, () => rigid(1, 0, 0, 0, 0, 0, 0));
  const identity = rigid(1, 0, 0, 0, 0, 0, 0);
  const view = {};
  // `target` is relative to the middle of the motion, or to a floating base that is followed.
  const middle = () => {
    if (scene.follow < 0) return scene.center;
    const at = bodies[scene.follow];
    return [at[12] + scene.center[0], at[13] + scene.center[1], at[14] + scene.center[2]];
  };
  const looked = () => { const m = middle(); return [0, 1, 2].map((i) => m[i] + view.target[i]); };
  const fit = () => {
    const tan = Math.tan(0.31), aspect = (canvas.clientWidth || 2) / (canvas.clientHeight || 1);
    const wide = Math.hypot(scene.half[0], scene.half[1]);
    return 0.55 * wide + 1.22 * Math.max(scene.half[2] / tan, wide / (tan * aspect));
  };
  const home = () => Object.assign(view, { turn: -0.85, tilt: 0.30, away: fit(), target: [0, 0, -0.06 * scene.half[2]] });
  home();
  let dirty = true, trails = true, forces = true;
  const arrows = scene.arrows && { ...scene.arrows, points: floats(scene.arrows.points), arrows: floats(scene.arrows.arrows) };

  function place(t) { // poses between two frames
    let low = 0, high = frames.length - 1;
    while (high - low > 1) { const middle = (low + high) >> 1; if (frames[middle] <= t) low = middle; else high = middle; }
    const span = frames[high] - frames[low], s = span > 0 ? Math.min(Math.max((t - frames[low]) / span, 0), 1) : 0;
    for (let i = 0; i < n; i++) {
      const a = poses.subarray(7 * (low * n + i), 7 * (low * n + i) + 7), b = poses.subarray(7 * (high * n + i), 7 * (high * n + i) + 7);
      const sign = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3] < 0 ? -1 : 1, p = [];
      for (let k = 0; k < 7; k++) p.push((1 - s) * a[k] + s * (k < 4 ? sign : 1) * b[k]);
      const size = Math.hypot(p[0], p[1], p[2], p[3]);
      bodies[i] = rigid(p[0] / size, p[1] / size, p[2] / size, p[3] / size, p[4], p[5], p[6]);
    }
  }
  function eyeAt() {
    const c = Math.cos(view.tilt), at = looked();
    return [at[0] + view.away * c * Math.cos(view.turn), at[1] + view.away * c * Math.sin(view.turn),
      at[2] + view.away * Math.sin(view.tilt)];
  }
  const sun = unit([0.45, -0.55, 1.05]);
  const reach = 1.25 * scene.radius;
  let light = identity;
  function shine() {
    const at = middle(), deep = reach + scene.depth;
    light = times(orthographic(reach, -deep, 2 * deep + reach), lookAt(at.map((x, i) => x + reach * sun[i]), at, [0, 1, 0]));
  }

  function solids(use, camera, eye) {
    gl.useProgram(use.out);
    gl.uniformMatrix4fv(use.at.camera, false, camera);
    if (use.at.light) gl.uniformMatrix4fv(use.at.light, false, light);
    if (eye) { gl.uniform3fv(use.at.eye, eye); gl.uniform3fv(use.at.sun, sun); gl.uniform1i(use.at.map, 0); gl.uniform1f(use.at.opacity, 1); }
    scene.solids.forEach((s, i) => {
      if (s.shown && !s.shown.some(([from, to]) => from <= clock.now && clock.now <= to)) return;
      const mesh = meshes[s.mesh];
      gl.bindVertexArray(mesh.array);
      gl.uniformMatrix4fv(use.at.model, false, times(s.body < 0 ? identity : bodies[s.body], locals[i]));
      gl.uniform3fv(use.at.scale, s.scale);
      if (eye) gl.uniform3fv(use.at.color, s.color);
      gl.drawArrays(gl.TRIANGLES, 0, mesh.count);
    });
  }
  function along(z, at) { // a frame at a point with z along a direction
    const help = Math.abs(z[2]) < 0.9 ? [0, 0, 1] : [1, 0, 0], x = unit(cross(help, z)), y = cross(z, x);
    return new Float32Array([...x, 0, ...y, 0, ...z, 0, ...at, 1]);
  }
  function pushes() { // contact forces of the frame that is shown
    let low = 0;
    for (let high = frames.length; high - low > 1;) { const m = (low + high) >> 1; if (frames[m] <= clock.now + 1e-9) low = m; else high = m; }
    const use = solid, k = arrows.count, thick = arrows.thick;
    gl.useProgram(use.out);
    const part = (mesh, model, scale) => {
      gl.bindVertexArray(meshes[mesh].array);
      gl.uniformMatrix4fv(use.at.model, false, model); gl.uniform3fv(use.at.scale, scale);
      gl.uniform3fv(use.at.color, [1.0, 0.62, 0.02]);
      gl.drawArrays(gl.TRIANGLES, 0, meshes[mesh].count);
    };
    for (let i = 0; i < k; i++) {
      const f = arrows.arrows.subarray(3 * (low * k + i), 3 * (low * k + i) + 3), at = arrows.points.subarray(3 * (low * k + i), 3 * (low * k + i) + 3);
      const size = Math.hypot(...f);
      if (!(size > 0.3 * thick)) continue;
      const z = unit([...f]), tip = Math.min(5 * thick, 0.5 * size), shaft = size - tip;
      const go = (s) => [0, 1, 2].map((j) => at[j] + s * z[j]);
      part("cylinder", along(z, go(shaft / 2)), [thick, thick, shaft / 2]);
      part("cone", along(z, go(shaft)), [2.4 * thick, 2.4 * thick, tip]);
    }
  }
  function render() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.max(1, Math.round(canvas.clientWidth * ratio)), height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    place(clock.now); shine();
    gl.enable(gl.DEPTH_TEST); gl.enable(gl.CULL_FACE); gl.disable(gl.BLEND); gl.depthMask(true);
    gl.bindTexture(gl.TEXTURE_2D, null);
    gl.bindFramebuffer(gl.FRAMEBUFFER, target); gl.viewport(0, 0, MAP, MAP); gl.clear(gl.DEPTH_BUFFER_BIT);
    solids(depth, light, null);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null); gl.bindTexture(gl.TEXTURE_2D, map);
    gl.viewport(0, 0, width, height); gl.clearColor(0, 0, 0, 0); gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const eye = eyeAt();
    const camera = times(perspective(0.62, width / height, 0.02 * view.away, view.away + 40 * scene.radius), lookAt(eye, looked(), [0, 0, 1]));
    solids(solid, camera, eye);
    gl.enable(gl.BLEND); gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA); gl.depthMask(false); gl.disable(gl.CULL_FACE);
    if (scene.floor !== null) {
      gl.useProgram(floor.out); gl.bindVertexArray(plate.array);
      gl.uniformMatrix4fv(floor.at.camera, false, camera); gl.uniformMatrix4fv(floor.at.light, false, light);
      gl.uniform3f(floor.at.center, middle()[0], middle()[1], scene.floor);
      gl.uniform1f(floor.at.size, 7 * (scene.radius + scene.depth)); gl.uniform1f(floor.at.cell, scene.cell); gl.uniform1i(floor.at.map, 0);
      gl.drawArrays(gl.TRIANGLES, 0, plate.count);
    }
    if (trails) for (const one of ribbons) {
      gl.useProgram(trail.out); gl.bindVertexArray(one.array);
      gl.uniformMatrix4fv(trail.at.camera, false, camera); gl.uniform2f(trail.at.screen, width, height);
      gl.uniform1f(trail.at.width, 5 * ratio); gl.uniform1f(trail.at.now, clock.now);
      gl.uniform1f(trail.at.span, scene.trail_span); gl.uniform3fv(trail.at.color, one.color);
      gl.drawArrays(gl.TRIANGLES, 0, one.count);
    }
    gl.depthMask(true);
    if (arrows && forces) { // in front of everything
      gl.clear(gl.DEPTH_BUFFER_BIT); gl.disable(gl.BLEND); gl.enable(gl.CULL_FACE);
      pushes();
    }
    gl.bindVertexArray(null);
  }

  // ---- mouse and touch
  const touches = new Map();
  let pinch = 0;
  const zoom = (factor) => { view.away = Math.min(Math.max(view.away * factor, 0.15 * scene.radius), 14 * scene.radius); dirty = true; };
  canvas.addEventListener("pointerdown", (e) => { canvas.setPointerCapture(e.pointerId); touches.set(e.pointerId, [e.clientX, e.clientY]); pinch = 0; });
  canvas.addEventListener("pointerup", (e) => { touches.delete(e.pointerId); pinch = 0; });
  canvas.addEventListener("pointercancel", (e) => { touches.delete(e.pointerId); pinch = 0; });
  canvas.addEventListener("pointermove", (e) => {
    const last = touches.get(e.pointerId);
    if (!last) return;
    const dx = e.clientX - last[0], dy = e.clientY - last[1];
    touches.set(e.pointerId, [e.clientX, e.clientY]);
    if (touches.size === 2) {
      const [a, b] = [...touches.values()], size = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (pinch) zoom(pinch / size);
      pinch = size;
    } else if (e.shiftKey || (e.buttons & 6)) {
      const back = unit(minus(eyeAt(), looked())), right = unit(cross([0, 0, 1], back)), up = cross(back, right);
      const step = 0.64 * view.away / canvas.clientHeight;
      for (let i = 0; i < 3; i++) view.target[i] += step * (dy * up[i] - dx * right[i]);
    } else {
      view.turn -= 0.006 * dx;
      view.tilt = Math.min(Math.max(view.tilt + 0.006 * dy, -1.5), 1.5);
    }
    dirty = true;
  });
  canvas.addEventListener("contextmenu", (e) => e.preventDefault());
  canvas.addEventListener("wheel", (e) => { e.preventDefault(); zoom(Math.exp(0.0012 * e.deltaY)); }, { passive: false });
  canvas.addEventListener("dblclick", () => { home(); dirty = true; });
  new ResizeObserver(() => { dirty = true; }).observe(canvas);
  clock.listeners.push(() => { dirty = true; });
  return {
    draw() { if (dirty) { dirty = false; render(); } },
    home() { home(); dirty = true; },
    trails(on) { trails = on; dirty = true; },
    forces(on) { forces = on; dirty = true; },
  };
}

// ---- transport -------------------------------------------------------------------------------------------
const canvas = document.getElementById("view");
const viewer = makeViewer(canvas);
if (!viewer) {
  const note = document.createElement("p");
  note.className = "message";
  note.textContent = "This browser has no WebGL 2, so there is no animation; the plots below need none.";
  document.getElementById("stage").append(note);
}
const play = document.getElementById("play"), scrub = document.getElementById("scrub");
scrub.min = data.start; scrub.max = data.end;
function setPlaying(on) {
  clock.playing = on && data.end > data.start;
  play.textContent = clock.playing ? "❚❚" : "▶";
  if (clock.playing && clock.now >= data.end) clock.set(data.start);
}
clock.listeners.push((t) => {
  scrub.value = t;
  document.getElementById("clock").textContent = `${t.toFixed(2)} / ${data.end.toFixed(2)} s`;
});
play.addEventListener("click", () => setPlaying(!clock.playing));
scrub.addEventListener("input", () => { setPlaying(false); clock.set(Number(scrub.value)); });
document.getElementById("home").addEventListener("click", () => viewer && viewer.home());
document.getElementById("trail").addEventListener("click", (e) => {
  const on = e.currentTarget.classList.toggle("on");
  if (viewer) viewer.trails(on);
});
const force = document.getElementById("force");
force.hidden = !data.scene.arrows;
if (data.scene.arrows) force.title = `contact forces: 0.1 m is ${(0.1 * data.scene.arrows.unit).toPrecision(2)} N`;
force.addEventListener("click", () => { const on = force.classList.toggle("on"); if (viewer) viewer.forces(on); });
document.addEventListener("keydown", (e) => {
  if (["INPUT", "SELECT", "BUTTON", "SUMMARY"].includes(e.target.tagName)) return;
  if (e.key === " ") { e.preventDefault(); setPlaying(!clock.playing); }
  if (e.key === "ArrowLeft" || e.key === "ArrowRight") {
    setPlaying(false); clock.set(clock.now + (e.key === "ArrowRight" ? 1 : -1) * (data.end - data.start) / 200);
  }
});
let before = null;
function tick(at) {
  if (clock.playing && before !== null) {
    const speed = Number(document.getElementById("speed").value);
    const t = clock.now + speed * Math.min((at - before) / 1000, 0.1);
    clock.set(t >= data.end ? data.start : t); // around again
  }
  before = at;
  if (viewer) viewer.draw();
  requestAnimationFrame(tick);
}
clock.set(data.start);
// A page that is asked to move little waits for the button.
setPlaying(!window.matchMedia("(prefers-reduced-motion: reduce)").matches);
requestAnimationFrame(tick);
