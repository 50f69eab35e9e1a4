"""The live pages of the gallery: mechanisms that move by their own compiled dynamics.

A row is a file, a title, a sentence, and a function that writes the page to a path.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import phipsi as pp

ROOT = Path(__file__).parents[2]


def _floating_arm(path: Path) -> None:
    arm = pp.examples.seven_joint_arm()
    q = [0.0, 0.5, 0.0, 1.0, 0.0, 0.5, 0.0]
    drive = pp.control.PDGravity(arm, q, kp=0.0, kd=8.0)
    pp.live_page(pp.Simulator(arm, [drive]), path, q=q, title="Gravity compensation")


def _four_bar(path: Path) -> None:
    """The linkage of the first block of the guide for designers."""
    text = (ROOT / "docs" / "guides" / "mechanism-designer.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], names)
    pp.live_page(names["linkage"], path, q=names["q0"], title="Four-bar linkage")


def _quadruped(path: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        names = runpy.run_path(str(ROOT / "examples" / "trotting_quadruped.py"))
    pp.live_page(names["sim"], path, q=names["q"], title="A trotting quadruped")


def _robot(make: Callable[[], Any], title: str) -> Callable[[Path], None]:
    return lambda path: (pp.live_page(make(), path, title=title), None)[1]


PAGES: list[tuple[str, str, str, Callable[[Path], None]]] = [
    ("arm", "Gravity compensation",
     "drag the arm and let it go: it stays where you leave it", _floating_arm),
    ("four-bar", "Four-bar linkage",
     "a slider moves the crank, and the loop stays closed", _four_bar),
    ("quadruped", "Trotting quadruped",
     "feet with friction; push it and see it recover", _quadruped),
    ("free-flyer", "Robot in space",
     "pull a hand, and the base reacts", _robot(pp.examples.free_flyer, "A robot in space")),
    ("humanoid", "Humanoid", "31 joints without a controller: it falls",
     _robot(pp.examples.humanoid, "A humanoid")),
]  # fmt: skip


FIRST = "quadruped"  # of the first page of the site


def section() -> str:
    """The part of the gallery that links to the pages, with a picture of each."""
    rows = [
        f'| <a href="live/{name}.html"><img src="_static/live-{name}.png" alt="{title}"></a> '
        f'| <a href="live/{name}.html">{title}</a>: {words} |'
        for name, title, words, _ in PAGES
    ]
    return "\n".join([
        "## Live", "",
        "These pages contain the physics: they open without a network, and can be mailed. "
        "[Live pages](live-pages.md) says what they can do.", "",
        "| | |", "|---|---|", *rows, "", "",
    ])  # fmt: skip


def first_page() -> str:
    """What the first page of the site has above its contents: installation, and a live robot."""
    name, title, words, _ = next(x for x in PAGES if x[0] == FIRST)
    start = (
        "const frame = document.createElement('iframe'); frame.src = this.href; "
        "frame.title = this.title; this.replaceWith(frame); return false"
    )
    return "\n".join([
        "## Install", "",
        "Version 0.1.0 is not on PyPI yet: until the release, `pip install -e .` in a clone of the "
        "repository takes the place of the first line.", "",
        "```shell", "pip install phipsi", "phipsi demo", "```", "",
        "## A live robot", "",
        f"{title}: {words}. Press the picture to start the simulation, compiled to WebAssembly, "
        "in this page. The [gallery](gallery.md) has more.", "",
        f'<a class="live" href="live/{name}.html" title="{title}, live" onclick="{start}">'
        f'<img src="_static/live-{name}.png" alt="{title}"><span>&#9654; start</span></a>',
        f'<p><a href="live/{name}.html">Open the live page alone</a></p>', "", "",
    ])  # fmt: skip


def write(folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(exist_ok=True)
    for name, _, _, make in PAGES:
        make(folder / f"{name}.html")
