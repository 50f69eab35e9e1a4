"""Physics of live pages: milliseconds per picture at real time, in Node and in Chromium.

A picture at 60 Hz is 1/60 s of steps, one look at poses and energies, and the forces of contacts;
drawing is apart. Robots of files are drawn with their meshes, which count for the size of the page.
Writes the table into benchmarks/LIVE_PAGES.md. Run by `make bench`.
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
from typing import Any

from numpy.typing import NDArray

import phipsi as pp
from phipsi.pages import live_parts, page_html

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "benchmarks"))
GOAL, LARGEST = 5.0, 5.0  # ms, MB
_MEASURE = """async (description, bytes) => {
  const physics = await PhipsiPhysics.load(description, bytes), out = [];
  const steps = Math.round(1 / 60 / physics.dt), poses = new Float64Array(12 * description.bodies.length);
  for (const handles of [false, true]) {
    const times = [];
    for (let i = 0; i < 180; i++) {
      if (i % 60 === 0) { physics.reset(); if (handles) physics.values["live_damping.rate"][0] = 0.1; }
      const began = performance.now();
      physics.advance(steps); physics.look(); physics.poses(poses); physics.touching();
      times.push(performance.now() - began);
    }
    const middle = [0, 60, 120].map((i) => times.slice(i, i + 60).sort((a, b) => a - b)[30]);
    out.push(Math.min(...middle));
  }
  return out;
}"""


def four_bar() -> pp.System:
    """That of the tests."""
    from known_systems import four_bar as known

    return known()


def robot(name: str) -> Callable[[], pp.Model]:
    """A robot of the other benchmarks, from its file with meshes."""
    from robots import load_robot

    return lambda: load_robot(name)


def standing() -> tuple[pp.Simulator, NDArray[Any]]:
    """The G1 of the benchmark of contacts: PD control at its joints, eight points at its feet."""
    import contacts

    setting = contacts.robot("G1")
    kp, kd = setting.gains
    hold = contacts.hold.bind(kp=kp, kd=kd, target=setting.target).on(setting.joints)
    material = pp.Material(friction=contacts.FRICTION)
    pairs = pp.Contacts(setting.model, ground=True, pairs=setting.pairs, material=material)
    system = pp.System(setting.model, contacts=pairs)
    options: Any = {"integrator": "time_stepping", "reproducible": True}
    return pp.Simulator(system, [hold], contacts.DT, **options), setting.q


CASES: dict[str, Callable[[], Any]] = {
    "seven-joint arm": pp.examples.seven_joint_arm,
    "four-bar": four_bar,
    "free flyer": pp.examples.free_flyer,
    "quadruped": pp.examples.quadruped,
    "humanoid, 37 degrees of freedom": pp.examples.humanoid,
    "Talos, 38, with meshes": robot("Talos"),
    "G1, 35, with meshes": robot("G1"),
    "G1 on its feet, 8 points": standing,
}


def in_node(folder: Path, description: Any, binary: bytes) -> list[float]:
    """Median milliseconds of a picture, without and with handles."""
    from exported_code import node_program

    asset = files("phipsi.pages") / "assets" / "physics.js"
    (folder / "physics.cjs").write_text(asset.read_text())
    (folder / "physics.json").write_text(json.dumps(description))
    (folder / "physics.wasm").write_bytes(binary)
    (folder / "run.cjs").write_text(
        'const fs = require("fs"); const { PhipsiPhysics } = require("./physics.cjs");\n'
        f"({_MEASURE})(JSON.parse(fs.readFileSync('physics.json')), fs.readFileSync('physics.wasm'))"
        ".then((x) => console.log(JSON.stringify(x)));\n"
    )
    words = [str(node_program()), "run.cjs"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def in_chromium(description: Any, binary: bytes) -> list[float] | None:
    """The same in a browser; None where there is none."""
    import base64

    browser = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if browser is None:
        return None
    asset = (files("phipsi.pages") / "assets" / "physics.js").read_text()
    with sync_playwright() as play:
        window = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = window.new_page()
        tab.add_script_tag(content=asset)
        given = [description, base64.b64encode(binary).decode()]
        found = tab.evaluate(
            f"([d, text]) => ({_MEASURE})(d, Uint8Array.from(atob(text), (c) => c.charCodeAt(0)))",
            given,
        )
        window.close()
    return found


def main() -> None:
    """Measure all, print, and write the table."""
    lines = [
        "# Live pages: time per picture",
        "",
        "How long a live page computes for one picture. Written by `make bench`. Milliseconds of physics in a picture at 60 Hz and real time (17 steps of",
        "1 ms by rk4; with contacts 8 of 2 ms; poses, energies and forces of contacts), the best of three",
        "medians of 60; \"changed\": with the handles of the page (a hand, gravity, damping, masses as",
        f"inputs). Goals for a humanoid: at most {GOAL:g} ms, and a page below {LARGEST:g} MB with its meshes.",
        "",
        "| mechanism | module, kB | page, MB | compiled in | Node | Node, changed | Chromium | Chromium, changed |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, build in CASES.items():
        made = build()
        sim, q = made if isinstance(made, tuple) else (pp.Simulator(made, reproducible=True), None)
        began = time.perf_counter()
        parts = live_parts(sim, q)
        seconds = time.perf_counter() - began
        page = len(page_html(name, parts).encode()) / 1e6
        binary = parts.get("binaries", {})["physics"]
        physics = parts.get("data", {})["live"]["physics"], binary
        with tempfile.TemporaryDirectory() as folder:
            node = in_node(Path(folder), *physics)
        browser = in_chromium(*physics)
        cells = [f"{x:.2f} ms" for x in node]
        cells += ["–"] * 2 if browser is None else [f"{x:.2f} ms" for x in browser]
        sizes = f"{len(binary) / 1000:.0f} | {page:.1f}"
        lines.append(f"| {name} | {sizes} | {seconds:.1f} s | {' | '.join(cells)} |")
        print(lines[-1])
    (ROOT / "benchmarks" / "LIVE_PAGES.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
