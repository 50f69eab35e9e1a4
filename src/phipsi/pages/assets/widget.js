// A cell of a notebook that shows a mechanism; after three.min.js, deformation.js, links.js and scene.js, in one module.
function render({ model, el }) {
  const stage = document.createElement("div"), canvas = document.createElement("canvas");
  stage.style.cssText = `position: relative; height: ${Number(model.get("height")) || 420}px; border-radius: 14px; overflow: hidden; background: radial-gradient(120% 90% at 50% 8%, #ffffff 0%, #e8edf4 55%, #d3dbe6 100%)`;
  canvas.style.cssText = "position: absolute; inset: 0; width: 100%; height: 100%; display: block; touch-action: none; cursor: grab";
  stage.append(canvas); el.append(stage);
  let scene;
  try {
    scene = new PhipsiScene(canvas, model.get("scene"));
  } catch (error) {
    stage.replaceWith("This browser does not support WebGL 2: a picture is shown below instead.");
    return undefined;
  }
  scene.theme("light");
  const picture = () => document.getElementById(model.get("picture")); // for pages where no widget runs
  const move = () => {
    const bytes = model.get("poses"), view = bytes.buffer ? bytes : new DataView(bytes);
    scene.setPoses(new Float64Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength)));
    scene.setCoordinates(model.get("q") || []);
  };
  let going = true;
  const draw = () => { if (going) { const still = picture(); if (still) still.hidden = true; scene.draw(); requestAnimationFrame(draw); } };
  model.on("change:poses", move);
  move(); scene.home(); draw();
  return () => { going = false; model.off("change:poses", move); scene.renderer.dispose(); };
}
export default { render };
