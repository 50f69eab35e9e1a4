"""Warnings about linear models that say little about the mechanism: friction, gears, damping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import Model, entry_names, flattened, rates_of
from phipsi.errors import warn
from phipsi.laws import BlockDiagram, Law
from phipsi.simulation.forces.joint_forces import JointDamper, JointFriction, StribeckFriction

_SLIDES = 3.0  # velocity scales: there the friction is 99.5 % of its value


def check_operating_point(
    model: Model, laws: Any, v: NDArray[Any], damping: Any, parameters: Mapping[str, Any] | None
) -> None:
    """Warn where the derivatives at v are those of a smoothing, or count damping twice.

    **Arguments:** `laws`, `damping` and `parameters` as for `linearize`.
    """
    if isinstance(laws, BlockDiagram):
        return
    listed = flattened(laws) if isinstance(laws, Iterable) else [laws]
    names = entry_names(model, model.v_slices)
    for one in listed:
        if isinstance(one, JointFriction | StribeckFriction):
            _check_friction(model, one, v, names)
        elif isinstance(one, JointDamper) and damping is True:
            _check_damping(model, one, names)
        elif isinstance(one, Law) and "efficiency" in one.ranges:
            _check_gear(model, one, v, parameters or {})


def _check_friction(model: Model, element: Any, v: NDArray[Any], names: list[str]) -> None:
    bound = element.bind(model)
    size, slope = np.zeros(model.nv), np.zeros(model.nv)
    if isinstance(element, JointFriction):
        size, slope = np.where(bound._dry, 0.0, bound._friction), bound._slope
    else:
        size[bound._v], slope[bound._v] = bound._static, bound._slope
    smooth = (size > 0) & (np.abs(v) * slope < _SLIDES)
    if smooth.any():
        i = int(np.argmax(smooth * size * slope))
        warn(
            f"{element!r} is linearized about v = {v[i]:.3g} of joint {names[i]!r}, where its "
            "smoothing acts as a damper of up to friction/velocity_scale = "
            f"{size[i] * slope[i]:.4g} N·m·s/rad or N·s/m, which a real joint does not have: it "
            "sticks, or slides with a constant friction. Linearize without it, or at a velocity "
            f"above {_SLIDES / slope[i]:.3g}"
        )


def _check_damping(model: Model, element: JointDamper, names: list[str]) -> None:
    both = (model.damping > 0) & (element.bind(model)._damping > 0)  # type: ignore[attr-defined]
    if both.any():
        i = int(np.argmax(both))
        warn(
            f"damping=True adds the model's damping, {model.damping[i]:.4g} at joint {names[i]!r}, "
            f"to that of {element!r} in laws=. If both are the damping of the model, as with "
            "pp.forces.from_model(model), it is counted twice. Remove damping=True"
        )


def _check_gear(model: Model, law: Law, v: NDArray[Any], parameters: Mapping[str, Any]) -> None:
    efficiency = np.asarray(parameters.get(f"{law.name}.efficiency", law.bound["efficiency"]))
    joints = None if law.joints is None else list(law.joints)
    still = v[rates_of(model, joints)] == 0
    lossy = efficiency < 1
    if (still & lossy).any():
        least = float(efficiency.min())
        warn(
            f"the motor {law.name!r} is linearized at rest, where it counts as driven: a command "
            f"acts with 1/efficiency = {1 / least:.4g} on the joint, but with {least:.4g} while "
            "the motor drives it. Linearize at a velocity, or with efficiency=1"
        )
