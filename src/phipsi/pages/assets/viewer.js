"use strict";
// A page that follows a Python program: it asks for the next configuration until the program ends.
(async () => {
  const said = page.element("said"), pause = (ms) => new Promise((done) => setTimeout(done, ms));
  let seen = -1, misses = 0;
  while (misses < 5) {
    try {
      const answer = await fetch("ask", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ seen }) });
      const got = await answer.json();
      misses = 0;
      if (got.closed) break;
      if (got.number === seen) continue;
      seen = got.number;
      page.setPoses(Float64Array.from(got.poses));
      if (got.q && page.scene) page.scene.setCoordinates(got.q);
      said.textContent = got.text;
    } catch (error) { // the program is busy, or over
      misses++;
      await pause(500);
    }
  }
  said.textContent = "the Python program has ended";
})();
