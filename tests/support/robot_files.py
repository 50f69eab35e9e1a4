"""Robot files written for one test, and lines that warnings about them give to paste."""

from pathlib import Path
from typing import Any

import numpy as np

import phipsi as pp


def mjcf_file(folder: Path, inside: str, name: str = "robot.xml", head: str = "") -> Path:
    """An MJCF file with this in its world, after a head."""
    path = folder / name
    path.write_text(f"<mujoco>{head}\n<worldbody>\n{inside}\n</worldbody></mujoco>")
    return path


def pasted(line: str) -> Any:
    """What a line of a warning makes when it is pasted."""
    return eval(line, {"pp": pp, "np": np})
