"""Figures of trajectories with matplotlib, which is imported here and on use only."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from phipsi.core.model import entry_names, known_joints, unit_texts
from phipsi.errors import counted, shown
from phipsi.simulation.trajectory.storage import record_columns
from phipsi.support import import_optional

_MOST_IN_LEGEND = 10
_MOST_ENTRIES = 100  # a record with more, such as forces on all bodies, is not drawn
_CONSERVED = 1e-3  # energy that changes less than this part of itself is shown as its change
_FLAT = 1e-6  # and what else changes less than this part of itself is drawn flat
NOTHING = 1e-13  # and so are numbers (rad, m, N, …) below this: they are rounding
ROUNDING = 1e-15  # energy that changes less than this part of itself does not change


def plot(trajectory: Any, joints: str | Iterable[str] | None = None) -> Any:
    """See `Trajectory.plot`."""
    bodies = _bodies(trajectory, joints)
    plt = import_optional("matplotlib.pyplot", "plot()", '"phipsi[plot]"')
    model = trajectory.model
    units = unit_texts(model)
    panels = [
        ("q", units[0], trajectory.q, model.q_slices),
        ("v", units[1], trajectory.v, model.v_slices),
    ]
    if np.nan_to_num(trajectory.tau).any():
        panels.append(("tau", "N·m, N", trajectory.tau, model.v_slices))
    signals = {n: x for n, x in trajectory.records.items() if x[0:1].size <= _MOST_ENTRIES}
    rows = len(panels) + len(signals) + 1
    figure, axes = plt.subplots(
        rows, 1, sharex=True, figsize=(9, 2.2 * rows), layout="constrained", squeeze=False,
        FigureClass=_figure_class(),
    )  # fmt: skip
    colors = plt.get_cmap("tab10" if model.nq <= 10 else "turbo")
    for axis, (symbol, units, values, slices) in zip(axes[:, 0], panels, strict=False):
        names = entry_names(model, slices)
        places = [k for i in bodies for k in range(slices[i].start, slices[i].stop)]
        for k in places:
            shade = colors(k % 10) if model.nq <= 10 else colors(k / max(values.shape[1] - 1, 1))
            axis.plot(trajectory.t, values[:, k], color=shade, lw=1.2, label=as_label(names[k]))
        axis.set_ylabel(f"{symbol}  ({units})")
        _draw_flat(axis)
        if 0 < len(places) <= _MOST_IN_LEGEND:
            axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
    for axis, (name, values) in zip(axes[len(panels) :, 0], signals.items(), strict=False):
        for label, column in record_columns({name: values}).items():
            axis.plot(trajectory.t, column, lw=1.2, label=as_label(label.removeprefix(name)))
        axis.set_ylabel(as_label(name))
        _draw_flat(axis)
        if 1 < values[0:1].size <= _MOST_IN_LEGEND:
            axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
    last = axes[-1, 0]
    _draw_energy(last, trajectory)
    last.set_xlabel("t  (s)")
    for axis in axes[:, 0]:
        axis.grid(alpha=0.3)
        for event in trajectory.events[:200]:
            axis.axvline(event.t, color="gray", lw=0.6, ls=":")
    what = model.name or counted(model.n_bodies, "body")
    cut = "" if trajectory.complete else ", not complete"
    figure.suptitle(as_label(f"{what}, {trajectory.integrator}{cut}"), fontsize=10)
    return figure


def _draw_energy(axis: Any, trajectory: Any) -> None:
    """The energy, or its change where that would be lost beside it."""
    energy = trajectory.energy
    first = float(energy[0]) if len(energy) else 0.0
    change = energy - first
    if ROUNDING * abs(first) < np.abs(change).max(initial=0.0) < _CONSERVED * abs(first):
        axis.plot(trajectory.t, change, color="black", lw=1.2)
        axis.set_ylabel(f"energy − E(0)  (J)\nE(0) = {first:.6g} J".replace("-", "−"))
        return
    axis.plot(trajectory.t, energy, color="black", lw=1.2)
    axis.set_ylabel("energy  (J)")
    _draw_flat(axis)


def _draw_flat(axis: Any) -> None:
    """No magnifying of rounding: numbers that all but stay the same are a straight line."""
    low, high = axis.get_ylim()
    size = max(abs(low), abs(high))
    if size < NOTHING:
        axis.set_ylim(-1.0, 1.0)
    elif high - low < _FLAT * size:
        axis.set_ylim((low + high) / 2 - 0.05 * size, (low + high) / 2 + 0.05 * size)


def as_label(name: str) -> str:
    """A name as it is: without mathematics between dollars, and in the legend if it begins with _.

    Matplotlib leaves out labels that begin with an underscore.
    """
    text = shown(name, 200).replace("$", r"\$")
    return f"\N{HAIR SPACE}{text}" if text.startswith("_") else text


@cache
def _figure_class() -> type:
    """A figure that notebooks draw once, although it is pyplot's and the result of a cell."""
    plt = import_optional("matplotlib.pyplot", "plot()", '"phipsi[plot]"')
    figure: Any = import_optional("matplotlib.figure", "plot()", '"phipsi[plot]"')

    class TrajectoryFigure(figure.Figure):
        is_drawn = False

        def _ipython_display_(self) -> None:
            """Called for the result of a cell, and at its end for all figures pyplot has."""
            if self.is_drawn and plt.fignum_exists(self.number):
                return
            self.is_drawn = True
            raise NotImplementedError  # IPython then draws it like any other figure

    return TrajectoryFigure


def _bodies(trajectory: Any, joints: str | Iterable[str] | None) -> list[int]:
    model = trajectory.model
    if joints is None:
        return list(range(model.n_bodies))
    return [model.joint_index(name) for name in known_joints(model, joints)]
