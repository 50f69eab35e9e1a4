"use strict";
// A slider that draws deformations larger than they are: from 1 to 1000 times, in equal steps of its logarithm.
page.exaggerate = (factor) => {
  const text = factor < 10 ? factor.toFixed(1).replace(/\.0$/, "") : String(Math.round(factor));
  page.element("exaggeration-number").textContent = `× ${text}`;
  page.element("exaggeration").value = Math.log10(factor);
  if (page.scene) page.scene.exaggerate(factor);
};
if (page.scene && ((data.scene.flexible || []).length || page.scene.links.twists)) {
  const box = document.createElement("label"), range = document.createElement("input"), number = document.createElement("output");
  box.className = "exaggeration"; box.title = "scale factor of drawn deformations; forces and paths are drawn at their true positions";
  Object.assign(range, { type: "range", id: "exaggeration", min: 0, max: 3, step: 0.01, value: 0 }); number.id = "exaggeration-number";
  range.setAttribute("aria-label", "scale factor of drawn deformations");
  box.append("deformation ", range, number); document.querySelector(".toolbar").prepend(box);
  range.addEventListener("input", () => page.exaggerate(10 ** Number(range.value)));
  page.exaggerate(1);
}
