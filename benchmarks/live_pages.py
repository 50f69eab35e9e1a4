"""Physics of live pages: milliseconds per picture at real time, in Node and in Chromium.

A picture at 60 Hz is 1/60 s of steps, and one look at poses and energies; drawing is apart. Writes
the table into benchmarks/LIVE_PAGES.md. Run by `make bench`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import phipsi as pp
from phipsi.interfaces.page.live_physics import LivePhysics, live_physics
from phipsi.interfaces.page.scene import first_configuration

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
GOAL = 5.0  # ms
_MEASURE = """async (description, bytes) => {
  const physics = await PhipsiPhysics.load(description, bytes), out = [];
  const steps = Math.round(1 / 60 / physics.dt), poses = new Float64Array(12 * description.bodies.length);
  for (const handles of [false, true]) {
    physics.reset();
    if (handles) physics.values["live_damping.rate"][0] = 0.1;
    const times = [];
    for (let i = 0; i < 60; i++) {
      const began = performance.now();
      physics.advance(steps); physics.look(); physics.poses(poses);
      times.push(performance.now() - began);
    }
    times.sort((a, b) => a - b);
    out.push(times[30]);
  }
  return out;
}"""


def four_bar() -> pp.System:
    """That of the tests."""
    from known_systems import four_bar as known

    return known()


CASES: dict[str, Callable[[], pp.Model]] = {
    "seven-joint arm": pp.examples.seven_joint_arm,
    "four-bar": four_bar,
    "free flyer": pp.examples.free_flyer,
    "quadruped": pp.examples.quadruped,
    "humanoid, 37 degrees of freedom": pp.examples.humanoid,
}


def in_node(folder: Path, physics: LivePhysics) -> list[float]:
    """Median milliseconds of a picture, without and with handles."""
    from exported_code import node_program

    asset = files("phipsi.interfaces.page") / "assets" / "physics.js"
    (folder / "physics.cjs").write_text(asset.read_text())
    (folder / "physics.json").write_text(json.dumps(physics.description()))
    (folder / "physics.wasm").write_bytes(physics.binary)
    (folder / "run.cjs").write_text(
        'const fs = require("fs"); const { PhipsiPhysics } = require("./physics.cjs");\n'
        f"({_MEASURE})(JSON.parse(fs.readFileSync('physics.json')), fs.readFileSync('physics.wasm'))"
        ".then((x) => console.log(JSON.stringify(x)));\n"
    )
    words = [str(node_program()), "run.cjs"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def in_chromium(physics: LivePhysics) -> list[float] | None:
    """The same in a browser; None where there is none."""
    import base64

    browser = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if browser is None:
        return None
    asset = (files("phipsi.interfaces.page") / "assets" / "physics.js").read_text()
    with sync_playwright() as play:
        window = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = window.new_page()
        tab.add_script_tag(content=asset)
        given = [physics.description(), base64.b64encode(physics.binary).decode()]
        found = tab.evaluate(
            f"([d, text]) => ({_MEASURE})(d, Uint8Array.from(atob(text), (c) => c.charCodeAt(0)))",
            given,
        )
        window.close()
    return found


def main() -> None:
    """Measure all, print, and write the table."""
    lines = [
        "# Live pages",
        "",
        "Written by `make bench`. Milliseconds of physics in a picture at 60 Hz and real time (17 steps of",
        "1 ms by rk4, poses and energies), median of 60; \"changed\": with the handles of the page (a hand,",
        f"gravity, damping, masses as inputs). Goal for a humanoid: at most {GOAL:g} ms.",
        "",
        "| mechanism | module, kB | compiled in | Node | Node, changed | Chromium | Chromium, changed |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, build in CASES.items():
        sim = pp.Simulator(build(), reproducible=True)
        began = time.perf_counter()
        physics = live_physics(sim, sim.start(first_configuration(sim._mechanism)))
        seconds = time.perf_counter() - began
        with tempfile.TemporaryDirectory() as folder:
            node = in_node(Path(folder), physics)
        browser = in_chromium(physics)
        cells = [f"{x:.2f} ms" for x in node]
        cells += ["–"] * 2 if browser is None else [f"{x:.2f} ms" for x in browser]
        size = f"{len(physics.binary) / 1000:.0f}"
        lines.append(f"| {name} | {size} | {seconds:.1f} s | {' | '.join(cells)} |")
        print(lines[-1])
    (ROOT / "benchmarks" / "LIVE_PAGES.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
