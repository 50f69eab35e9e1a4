"use strict";
// Gears, belts, cams, motors and links: facts about those that hold the body that was picked, and about the one below the pointer.
// data.scene.machines: [{name, kind, text, bodies, units, value, efforts}], efforts (frames × bodies) in a recorded run.
{
  const machines = (data.scene && data.scene.machines) || [];
  const times = machines.length && data.scene.times ? PhipsiShapes.floats(data.scene.times) : [];
  const efforts = machines.map((m) => (m.efforts ? PhipsiShapes.floats(m.efforts) : null));
  const frameAt = (t) => { // the last frame that is not later
    let low = 0, high = times.length - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (times[middle] <= t) low = middle; else high = middle - 1; }
    return low;
  };
  const effortOf = (i, at) => (efforts[i] && page.scene && !(page.live && page.live.active) ? efforts[i][frameAt(page.scene.time) * machines[i].bodies.length + at] : NaN);
  const valueOf = (i) => { // residuals that are nothing but rounding count as 0
    const found = page.scene ? page.scene.links.values[i] : null;
    return found ? [{ label: machines[i].value, text: found.map((x) => page.number(Math.abs(x) < 1e-9 ? 0 : x)).join("  ") }] : [];
  };
  page.machines = (k) => machines.flatMap((m, i) => {
    const at = m.bodies.indexOf(k);
    if (at < 0) return [];
    const rows = [{ label: m.kind, text: `${m.name}: ${m.text}` }, ...valueOf(i)], effort = effortOf(i, at);
    if (Number.isFinite(effort)) rows.push({ label: "its effort on this joint", text: `${page.number(effort)} ${m.units[at]}` });
    return rows;
  });
  page.machine = (i) => [ // one element: its name and kind, what it does, its residual or twist, its efforts
    { label: machines[i].kind, text: machines[i].name }, { label: "", text: machines[i].text }, ...valueOf(i),
    ...machines[i].bodies.flatMap((k, at) => { const x = effortOf(i, at); return Number.isFinite(x) ? [{ label: `effort on ${data.scene.bodies[k].joint.name}`, text: `${page.number(x)} ${machines[i].units[at]}` }] : []; }),
  ];
  if (page.scene && machines.length) {
    const box = Object.assign(document.createElement("div"), { id: "machine", className: "hovered", hidden: true }), canvas = page.scene.canvas;
    box.setAttribute("role", "status"); page.element("stage").append(box);
    let shown = -1;
    const write = () => box.replaceChildren(...page.machine(shown).map(({ label, text }) => { const line = document.createElement("p"); line.textContent = label ? `${label}: ${text}` : text; return line; }));
    const hide = () => { shown = -1; box.hidden = true; };
    canvas.addEventListener("pointermove", (e) => {
      shown = e.buttons ? -1 : page.scene.machine(e);
      if (shown < 0) { hide(); return; }
      const stage = page.element("stage").getBoundingClientRect();
      write(); box.hidden = false;
      box.style.left = `${Math.max(0, Math.min(e.clientX - stage.left + 14, stage.width - box.offsetWidth - 8))}px`;
      box.style.top = `${Math.max(0, Math.min(e.clientY - stage.top + 14, stage.height - box.offsetHeight - 8))}px`;
    });
    for (const kind of ["pointerleave", "pointerdown"]) canvas.addEventListener(kind, hide);
    page.frame.push(() => { if (shown >= 0) write(); });
  }
}
