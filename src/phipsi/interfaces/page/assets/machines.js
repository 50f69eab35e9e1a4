"use strict";
// Gears, belts, cams and motors: facts about those that hold the body that was picked. Their solids are meshes of the scene.
// data.scene.machines: [{name, kind, text, bodies, units, efforts}], efforts (frames × bodies) in a recorded run.
{
  const machines = (data.scene && data.scene.machines) || [];
  const numbers = (text) => new Float32Array(PhipsiShapes.bytes(text));
  const times = machines.length && data.scene.times ? numbers(data.scene.times) : [];
  const efforts = machines.map((m) => (m.efforts ? numbers(m.efforts) : null));
  const frameAt = (t) => { // the last frame that is not later
    let low = 0, high = times.length - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (times[middle] <= t) low = middle; else high = middle - 1; }
    return low;
  };
  page.machines = (k) => machines.flatMap((m, i) => {
    const at = m.bodies.indexOf(k);
    if (at < 0) return [];
    const rows = [{ label: m.kind, text: `${m.name}: ${m.text}` }];
    const effort = efforts[i] && page.scene && !(page.live && page.live.active) ? efforts[i][frameAt(page.scene.time) * m.bodies.length + at] : NaN;
    if (Number.isFinite(effort)) rows.push({ label: "its effort here", text: `${page.number(effort)} ${m.units[at]}` });
    return rows;
  });
}
