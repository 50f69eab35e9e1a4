"""Inverse dynamics with chosen actuators: which efforts drive a motion, loops included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.constraint_rows import rows_of
from phipsi.algorithms.constrained.row_rank import Ranked, least
from phipsi.core.model import Model, as_floats, as_list, entries_of
from phipsi.errors import InputError, did_you_mean

Array = NDArray[Any]

_ADMISSIBLE = 1e-6  # what rates and accelerations may miss the constraints by, relative
_UNDRIVEN, _ROUNDING = 1e-9, 1e-13  # of the efforts needed here, and of those needed in all
_SLOW = 1e-6  # rad/s, m/s: slower motions are measured as if they were as fast


@final
class Actuation:
    """The joints of a mechanism that have a drive, and what their efforts cost.

    **Attributes:** `rates` (k,), where in v the drives are.
    """

    def __init__(
        self, system: Model, actuated: Sequence[str] | None, weights: ArrayLike | None = None
    ) -> None:
        self._system, self._actuated = system, actuated
        self.rates = _rates(system.model, actuated)
        self._cost = _weights(system.model, weights)[self.rates]

    def efforts(self, q: Array, v: Array, vdot: Array, needed: Array) -> tuple[Array, Array]:
        """Efforts (n, nv) for motions, and the least multipliers (n, rows) with them.

        **Arguments:** n states (n, nq), (n, nv), (n, nv); `needed` (n, nv), the inverse dynamics of
        the tree.
        """
        at = ConstraintMetric(rows_of(self._system), q)
        _check_motion(self._system, at, q, v, vdot)
        tau = self.replacing(at, needed)
        return tau, at.multipliers_of(tau - needed)

    def replacing(self, at: ConstraintMetric, needed: Array) -> Array:
        """Efforts (n, nv) of the drives that move the mechanism as `needed` (n, nv) would.

        Raises `InputError` where the drives do not suffice.
        """
        x = np.einsum("nji,nj->ni", at.back, needed)  # efforts in the coordinates L* v
        tau = np.zeros(needed.shape)
        tau[:, self.rates], missing = driving_efforts(at, x, self.rates, self._cost)
        _check_driven(self._system, at.back, missing, x, self._actuated)
        return tau


def driving_efforts(
    at: ConstraintMetric, x: Array, driven: Array, cost: Array
) -> tuple[Array, Array]:
    """Efforts (n, k) of the driven rates that do what x = L⁻¹ efforts (n, nv) do along motions.

    Σ cost · tau² is least; with them, what of x no drive gives (n, nv). Where the drives do not
    suffice, they leave as little of it as they can. A drive is measured by how much it could move
    if its joint alone were free, so that drives of light and heavy mechanisms compare.
    """
    reach = np.swapaxes(at.back[:, driven], -1, -2)  # L⁻¹ of unit efforts
    size = np.linalg.norm(reach, axis=-2)
    through = at.free @ reach / size[:, None]
    wanted = at.free @ x[..., None]
    ranked = Ranked(through)
    found = ranked.pseudo_inverse() @ wanted
    if not (ranked.rank == len(driven)).all():  # more drives than degrees of freedom
        found = least(ranked.across(), np.sqrt(cost) / size) @ found
    return found[..., 0] / size, (wanted - through @ found)[..., 0]


def _check_motion(system: Model, at: ConstraintMetric, q: Array, v: Array, vdot: Array) -> None:
    drift = at.rows.bias(q, v)
    # the error of a row is measured by its own terms, so that a large mechanism hides no small one
    together = np.stack([np.ones_like(v), v, vdot], axis=-1)
    unit, speed, gain = np.moveaxis(at.rows.rate_sizes(at.matrix, at.motion, together), -1, 0)
    fast = np.abs(v).max(axis=-1, initial=0.0, keepdims=True)
    slips, opens = np.moveaxis(at.jacobian @ together[..., 1:], -1, 0)
    parts = (
        ("v", "rad/s, m/s", slips - at.rows.rates, speed + np.abs(at.rows.rates)),
        ("vdot", "rad/s², m/s²", opens + drift, gain + fast * speed),
    )
    for name, what, wrong, size in parts:
        bad = np.abs(wrong) > _ADMISSIBLE * np.maximum(size, _SLOW * unit)
        if not bad.any():
            continue
        row = int(np.flatnonzero(bad.any(axis=0))[0])
        most = float(np.abs(wrong[..., row]).max())
        fix = (
            "q, v = system.project(q, v)"
            if name == "v"
            else "G = system.jacobian(q)\n"
            "    vdot = vdot - np.linalg.pinv(G) @ (G @ vdot + system.bias(q, v))"
        )
        raise InputError(
            f"{name} does not keep the constraints: row {system.row_names[row]!r} is off by "
            f"{most:.4g} ({what}). No joint torques produce such a motion. The nearest motion that "
            "keeps them:\n"
            f"    {fix}"
        )


def _rounded(numbers: Array) -> list[float]:
    return np.round(numbers, 4).tolist()


def _check_driven(
    system: Model, back: Array, missing: Array, x: Array, actuated: Sequence[str] | None
) -> None:
    # missing efforts are measured by those the mechanism needs, and by the rounding of the whole
    label = rows_of(system).components
    together = (label[:, None] == label).astype(float)
    left, own = (np.sqrt(np.square(a) @ together) for a in (missing, x))
    allowed = _UNDRIVEN * np.maximum(own, 1e-12) + _ROUNDING * np.linalg.norm(x, axis=-1)[:, None]
    part = left / allowed
    if not (part > 1).any():
        return
    worst = int(part.max(axis=-1).argmax())
    e = missing[worst]
    motion = back[worst] @ e
    needs = e @ e / np.abs(motion).max()
    motion = np.where(np.abs(motion) > 1e-12 * np.abs(motion).max(), motion, 0.0)
    motion = motion / np.abs(motion).max()
    entries = [
        (float(abs(motion[at]).max()), name, _rounded(motion[at]))
        for name, at in zip(system.model.joint_names, system.model.v_slices, strict=True)
        if at.stop > at.start
    ]
    entries.sort(key=lambda x: -x[0])
    shown = ", ".join(
        f"{name!r} by {x[0] if len(x) == 1 else x}" for size, name, x in entries[:6] if size > 1e-6
    )
    names = "all joints" if actuated is None else f"the actuators {list(actuated)}"
    driven = set[str]() if actuated is None else set(actuated)
    best = next((name for size, name, _ in entries if size > 1e-6 and name not in driven), None)
    advice = (
        f"Actuate one of these joints too, for example {best!r}, or"
        if best
        else "Modes of flexible bodies cannot be actuated:"
    )
    raise InputError(
        f"{names} cannot drive this motion: none of them acts along the admissible motion\n"
        f"    {shown}\n"
        f"(velocities relative to each other), which needs {float(needs):.4g} (N·m or N along it). "
        f"{advice} pass the motion that the mechanism makes there without drives."
    )


def _rates(model: Model, actuated: Sequence[str] | None) -> Array:
    if actuated is None:
        return np.arange(model.nv)
    names = as_list("actuated", actuated, "['elbow']")
    for name in names:
        if not isinstance(name, str) or name not in model.joint_names:
            raise InputError(
                f"actuated joint {name!r} does not exist. {did_you_mean(name, model.joint_names)}"
            )
    return np.unique(entries_of(map(model.joint_rates, names)))  # modes have no drive


def _weights(model: Model, weights: ArrayLike | None) -> Array:
    if weights is None:
        return np.ones(model.nv)
    values = as_floats("weights", weights)
    if values.shape != (model.nv,) or not (np.isfinite(values).all() and (values > 0).all()):
        raise InputError(f"weights must be ({model.nv},), one number above 0 per degree of freedom")
    return values
