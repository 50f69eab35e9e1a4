"use strict";
// Pictures of a recorded run at given times, for `phipsi render`: PNGs as base64, one per line, in #pictures.
(() => {
  const { times, width, height, theme } = page.data.render, out = document.createElement("pre");
  out.id = "pictures";
  if (page.scene) {
    const canvas = page.scene.canvas, flat = document.createElement("canvas"), g = flat.getContext("2d");
    Object.assign(page.element("stage").style, { position: "fixed", inset: "0 auto auto 0", width: `${width}px`, height: `${height}px`, minHeight: "0", border: "0", borderRadius: "0" });
    flat.width = width; flat.height = height;
    setPlaying(false); page.theme(theme); page.scene.resize(); page.scene.home();
    const light = g.createRadialGradient(width / 2, 0.08 * height, 0, width / 2, 0.08 * height, 1.1 * Math.max(width / 2, height));
    const stops = theme === "light" ? ["#ffffff", "#e8edf4", "#d3dbe6"] : ["#2b3a55", "#17202f", "#0c1119"];
    stops.forEach((color, i) => light.addColorStop([0, 0.5, 1][i], color));
    out.textContent = times.map((t) => {
      clock.set(t); page.scene.render();
      g.fillStyle = light; g.fillRect(0, 0, width, height); g.drawImage(canvas, 0, 0, width, height);
      return flat.toDataURL("image/png").slice("data:image/png;base64,".length);
    }).join("\n");
  }
  document.body.append(out);
})();
