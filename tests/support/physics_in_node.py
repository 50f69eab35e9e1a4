"""The physics of a live page in Node, beside which a script of its own runs.

place = physics_folder(tmp_path)
in_node(place, physics, "physics.look(); return list(values.energies);")
"""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

from exported_code import node_program

from phipsi.pages.live_page import LivePhysics

_SCRIPT = """
const fs = require("fs");
const { PhipsiPhysics } = require(process.argv[2] + "/physics.js");
const read = (name) => fs.readFileSync(`${process.argv[2]}/${name}`);
const list = (x) => Array.from(x);
PhipsiPhysics.load(JSON.parse(read("physics.json")), read("physics.wasm")).then((physics) => {
  const values = physics.values;
  const out = (() => { BODY })();
  console.log(JSON.stringify(out));
});
"""


def physics_folder(place: Path) -> Path:
    """The folder, with the page's own script in it."""
    asset = files("phipsi.pages") / "assets" / "physics.js"
    (place / "physics.js").write_text(asset.read_text())
    return place


def write_physics(folder: Path, physics: LivePhysics) -> None:
    """What a script reads: the description and the module."""
    (folder / "physics.json").write_text(json.dumps(physics.description()))
    (folder / "physics.wasm").write_bytes(physics.binary)


def in_node(folder: Path, physics: LivePhysics, body: str) -> Any:
    """What a script returns that has `physics`, `values` and `list`."""
    write_physics(folder, physics)
    (folder / "script.cjs").write_text(_SCRIPT.replace("BODY", body))
    words = [node_program(), "script.cjs", str(folder)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)
