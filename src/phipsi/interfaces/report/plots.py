"""The plots of a report as data: energy and its change, coordinates, rates, efforts."""

from __future__ import annotations

import colorsys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.dynamics.energy import kinetic_energy
from phipsi.errors import shown
from phipsi.motion.entry_names import entry_names
from phipsi.simulation.quadratures import WORK
from phipsi.trajectory.trajectory import Trajectory

Array = NDArray[Any]

_POINTS = 900
_MOST_SERIES = 60
_COLORS = (
    "#4cc9f0", "#ff8a3d", "#4ade80", "#f472b6", "#facc15", "#a78bfa", "#f87171", "#2dd4bf",
    "#c4b5fd", "#94a3b8",
)  # fmt: skip


def plots(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The plots, each with its times, series and units."""
    model = trajectory.model
    energy, kinetic = trajectory.energy, _kinetic(trajectory)
    kept = picked(trajectory.t, energy - energy[0])
    parts = np.stack([kinetic, energy - kinetic, energy], axis=1)
    out = [
        _plot(
            "Energy", "all samples", "J", trajectory.t[kept],
            ["kinetic", "potential", "total"], parts[kept],
        ),
        _change(trajectory, energy - energy[0], kept),
    ]  # fmt: skip
    smooth = trajectory
    if trajectory.t[-1] > trajectory.t[0]:
        smooth = trajectory.resample(np.linspace(trajectory.t[0], trajectory.t[-1], _POINTS))
    q_names, v_names = (entry_names(model, s) for s in (model.q_slices, model.v_slices))
    out.append(_plot("Coordinates", "q", _units(model, ""), smooth.t, q_names, smooth.q))
    out.append(_plot("Rates", "v", _units(model, "/s"), smooth.t, v_names, smooth.v))
    if np.nan_to_num(trajectory.tau).any():
        out.append(_plot("Efforts", "of the controller", "N·m, N", smooth.t, v_names, smooth.tau))
    return [plot for plot in out if plot["series"]]


def _change(trajectory: Trajectory, change: Array, kept: Array) -> dict[str, Any]:
    """The energy against its start, with the work that explains it if that is there."""
    names, columns, note = ["change"], [change], "E(t) − E(0)"
    if WORK in trajectory.quadratures:
        names.append("work")
        columns.append(trajectory.work)
        note += f", the work to {np.abs(change - trajectory.work).max():.1e} J"
        note = note if not trajectory.events else "E(t) − E(0)"
    values = np.stack(columns, axis=1)[kept]
    return _plot("Change of the total energy", note, "J", trajectory.t[kept], names, values, True)


def picked(t: Array, values: Array) -> Array:
    """Indices of at most about 900 samples that keep the extremes of `values`."""
    n = len(t)
    if n <= _POINTS:
        return np.arange(n)
    edges = np.linspace(0, n, _POINTS // 3 + 1).astype(int)
    out = {0, n - 1}
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        part = values[first:last]
        out |= {int(first), int(first + part.argmin()), int(first + part.argmax())}
    return np.array(sorted(out))


def _kinetic(trajectory: Trajectory) -> Array:
    return kinetic_energy(trajectory.model, trajectory.q, trajectory.v)


def _units(model: Any, per: str) -> str:
    """Of all coordinates or rates together, by the kinds of joints."""
    turning = {"revolute", "universal", "spherical"}
    kinds = {joint.kind for joint in model.joints}
    if kinds <= turning:
        return f"rad{per}"
    return f"m{per}" if kinds <= {"prismatic", "translation"} else f"rad{per}, m{per}"


def _plot(
    title: str,
    note: str,
    unit: str,
    t: Array,
    names: list[str],
    columns: Array,
    zero: bool = False,
) -> dict[str, Any]:
    if len(names) > _MOST_SERIES:
        note += f", the first {_MOST_SERIES} of {len(names)}"
    first = names[:_MOST_SERIES]
    series = [
        {
            "name": shown(name)[:60],
            "color": _color(i, len(first)),
            "values": _numbers(columns[:, i], 6),
        }
        for i, name in enumerate(first)
    ]
    return {
        "title": title, "note": note, "unit": unit, "zero": zero, "t": _numbers(t, 9),
        "series": series,
    }  # fmt: skip


def _color(i: int, count: int) -> str:
    if count <= len(_COLORS):
        return _COLORS[i]
    r, g, b = colorsys.hls_to_rgb(0.55 + i / count, 0.64, 0.75)
    return f"#{round(255 * r):02x}{round(255 * g):02x}{round(255 * b):02x}"


def _numbers(values: Array, digits: int) -> list[float | None]:
    """Rounded to significant digits; what is not finite is left out of the line."""
    return [float(f"{x:.{digits}g}") if np.isfinite(x) else None for x in values.tolist()]
