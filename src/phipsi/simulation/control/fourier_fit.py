"""Fourier series closest to measured coordinates, with a warning where they are far from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import Model
from phipsi.errors import warn

Array = NDArray[Any]

_MISFIT = 0.02
"""Root mean square distance of a fitted series from its record, as a fraction of its deviations."""


def fitted_series(
    model: Model, t: Array, q: Array, period: float, harmonics: int
) -> tuple[Array, Array, Array]:
    """Mean (nq,), cosines and sines (nq, K) of the velocities, by least squares."""
    omega = 2 * np.pi / period * np.arange(1, harmonics + 1)
    angle = t[:, None] * omega
    basis = np.hstack([np.ones((len(t), 1)), np.sin(angle), -np.cos(angle)])
    found = np.linalg.lstsq(basis, q, rcond=None)[0]
    if harmonics:
        _warn_of_misfit(model, t, q, basis @ found, period)
    cosines, sines = (omega[:, None] * part for part in np.split(found[1:], 2))
    return found[0], cosines.T, sines.T


def _warn_of_misfit(model: Model, t: Array, q: Array, fitted: Array, period: float) -> None:
    """Say which coordinate is farthest from its fitted series, if that is far."""
    error = q - fitted
    rms, size = np.sqrt(np.mean(error**2, axis=0)), q.std(axis=0)
    ratio = np.where(size > 1e-9 * np.abs(q).max(initial=1.0), rms / np.maximum(size, 1e-300), 0.0)
    if not ratio.size or not ratio.max() > _MISFIT:
        return
    i = int(ratio.argmax())
    joint = next(
        name for name, at in zip(model.joint_names, model.q_slices, strict=True) if i < at.stop
    )
    k = int(np.abs(error[:, i]).argmax())
    warn(
        f"the series of joint {joint!r} is up to {abs(error[k, i]):.3g} from the record (at t = "
        f"{t[k]:g} s), rms {rms[i]:.3g}, {100 * ratio[i]:.0f} % of the motion. A Fourier series "
        f"fits records that repeat after period={period:g} s, and frequencies up to harmonics/"
        "period: pass the period and more harmonics, or filter this record another way (a spline)"
    )
