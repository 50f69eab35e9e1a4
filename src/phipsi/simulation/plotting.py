"""Figures of trajectories with matplotlib, which is imported here and on use only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from phipsi.errors import InputError, did_you_mean
from phipsi.simulation.optional import needed
from phipsi.simulation.storage import entry_names

if TYPE_CHECKING:
    from phipsi.simulation.trajectory import Trajectory

_MOST_IN_LEGEND = 10


def plot(trajectory: Trajectory, joints: str | Iterable[str] | None = None) -> Any:
    """See `Trajectory.plot`."""
    plt = needed("matplotlib.pyplot", "plot()", '"phipsi[plot]"')
    model = trajectory.model
    shown = _shown(trajectory, joints)
    panels = [
        ("q", "rad, m", trajectory.q, model.q_slices),
        ("v", "rad/s, m/s", trajectory.v, model.v_slices),
    ]
    if np.nan_to_num(trajectory.tau).any():
        panels.append(("tau", "N·m, N", trajectory.tau, model.v_slices))
    rows = len(panels) + 1
    figure, axes = plt.subplots(
        rows, 1, sharex=True, figsize=(9, 2.2 * rows), layout="constrained", squeeze=False
    )
    colors = plt.get_cmap("tab10" if model.nq <= 10 else "turbo")
    for axis, (symbol, units, values, slices) in zip(axes[:, 0], panels, strict=False):
        names = entry_names(model, slices)
        places = [k for i in shown for k in range(slices[i].start, slices[i].stop)]
        for k in places:
            shade = colors(k % 10) if model.nq <= 10 else colors(k / max(values.shape[1] - 1, 1))
            axis.plot(trajectory.t, values[:, k], color=shade, lw=1.2, label=names[k])
        axis.set_ylabel(f"{symbol}  ({units})")
        if 0 < len(places) <= _MOST_IN_LEGEND:
            axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
    last = axes[-1, 0]
    last.plot(trajectory.t, trajectory.energy, color="black", lw=1.2)
    last.set_ylabel("energy  (J)")
    last.set_xlabel("t  (s)")
    for axis in axes[:, 0]:
        axis.grid(alpha=0.3)
        for event in trajectory.events[:200]:
            axis.axvline(event.t, color="gray", lw=0.6, ls=":")
    what = model.name or f"{model.n_bodies} bodies"
    cut = "" if trajectory.complete else ", not complete"
    figure.suptitle(f"{what}, {trajectory.integrator}{cut}", fontsize=10)
    return figure


def _shown(trajectory: Trajectory, joints: str | Iterable[str] | None) -> list[int]:
    model = trajectory.model
    if joints is None:
        return list(range(model.n_bodies))
    names = [joints] if isinstance(joints, str) else list(joints)
    for name in names:
        if name not in model.joint_names:
            raise InputError(f"there is no joint {name!r}. {did_you_mean(name, model.joint_names)}")
    return [model.joint_index(name) for name in names]
