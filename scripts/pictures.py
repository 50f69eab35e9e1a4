"""Draw the pictures of the documentation again: run `python scripts/pictures.py`.

Each picture runs the code of the page that shows it, so that the two agree.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
mpl.rcParams["svg.hashsalt"] = "phipsi"
mpl.rcParams["svg.fonttype"] = "none"


def after(page: str, last: str) -> dict[str, Any]:
    """The names on a page after its Python blocks, up to the one that contains `last`."""
    names: dict[str, Any] = {}
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        with contextlib.redirect_stdout(io.StringIO()):
            exec(block, names)
        if last in block:
            return names
    raise ValueError(f"{page} has no block with {last!r}")


def thousand_arms() -> plt.Figure:
    """The first joint of a thousand arms."""
    names = after("simulator.md", "np.percentile")
    run = names["run"]
    low, middle, high = np.percentile(run.q[..., 0], [5, 50, 95], axis=0)
    figure, axes = plt.subplots(figsize=(6.0, 2.6), layout="constrained")
    axes.fill_between(run.t[0], low, high, alpha=0.3, lw=0, label="5 % to 95 %")
    axes.plot(run.t[0], middle, label="median")
    axes.axhline(0.8, color="0.5", lw=0.8, ls="--", label="target")
    axes.set(xlabel="t (s)", ylabel="joint1 (rad)", xlim=(0, run.t[0, -1]))
    axes.legend(frameon=False, loc="lower right")
    return figure


PICTURES = {"thousand-arms": thousand_arms}


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        draw().savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
        print(f"written: docs/pictures/{name}.svg")


if __name__ == "__main__":
    main()
