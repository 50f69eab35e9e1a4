"""Writing a trajectory to files by their suffix."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from phipsi.errors import InputError
from phipsi.simulation.trajectory import Trajectory

# suffix -> what it is
KINDS = {
    ".npz": "everything, the model included, for pp.Trajectory.load",
    ".csv": "columns with names, for other programs",
    ".html": "a report with plots and an animation",
    ".png": "a figure",
    ".svg": "a figure",
    ".pdf": "a figure",
}


def checked_output(path: str | os.PathLike[str]) -> Path:
    """A path that can be written to, found out before a long run."""
    out = Path(path)
    if out.suffix.lower() not in KINDS:
        listed = "\n".join(f"    {suffix:6} {what}" for suffix, what in KINDS.items())
        raise InputError(f"{out}: the suffix says what to write, and it is none of\n{listed}")
    if out.is_dir():
        raise InputError(f"{out} is a folder; give the name of a file.")
    folder = out.parent
    if not folder.is_dir():
        raise InputError(f"{out}: there is no folder {folder}. Make it first:  mkdir -p {folder}")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{out}: nothing can be written to the folder {folder}.")
    if out.suffix.lower() in (".png", ".svg", ".pdf"):
        _matplotlib()
    return out


def write_output(trajectory: Trajectory, path: Path, *, title: str = "") -> None:
    """Write a trajectory as what the suffix says; it is whole or not there."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        trajectory.save(path)
    elif suffix == ".html":
        from phipsi.interfaces.report import report

        report(trajectory, path, title=title)
    else:
        partial = path.with_name(f".{path.name}.{os.getpid()}.part{suffix}")
        try:
            if suffix == ".csv":
                trajectory.to_csv(partial)
            else:
                _save_figure(trajectory, partial)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def _save_figure(trajectory: Trajectory, path: Path) -> None:
    plt = _matplotlib()
    figure = trajectory.plot()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _matplotlib() -> Any:
    """The pyplot module, drawing to files only: a run need not have a screen."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise InputError(
            'figures need matplotlib, which is not installed:  pip install "phipsi[plot]"'
        ) from error
    return plt
