"""Dynamics seen at points: the inertia of operational space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from numpy.typing import ArrayLike, NDArray

from phipsi.backends.options import CallOptions
from phipsi.compiler import program_at
from phipsi.model.mechanisms import of_modes, of_trees
from phipsi.model.model import Model
from phipsi.operators import Lambda

Array = NDArray[Any]
Points = Sequence[Any]

OPERATIONAL_SPACE_INERTIA = Lambda.inv


@of_modes
@of_trees(
    "constraint forces resist too, so that the points feel heavier than they would on the tree",
    "Accelerations that forces cause:  pp.forward_dynamics(system, q, v, tau, f_ext)",
)
def operational_space_inertia(
    model: Model,
    q: ArrayLike,
    points: Points,
    *,
    axes: str = "world",
    **options: Unpack[CallOptions],
) -> Array:
    """Inertia felt at points: accelerations of the points → forces at them.

    Λ⁻¹ = (J ℳ⁻¹ J*)⁻¹ = (B* ψ* H* D⁻¹ H ψ B)⁻¹, with the coupling between the points, which may be
    on any bodies of the tree. One 6×6 block per pair of points, [angular; linear], in kg·m², kg·m
    and kg.

    **Arguments:** `q` (..., nq); `points`, `axes` as for `jacobian`.
    **Returns:** (..., 6 nC, 6 nC). If J lacks row rank (the points cannot all accelerate
    independently) it raises `SingularMatrixError`; J ℳ⁻¹ J* itself always exists, as
    ``compile(Lambda, …)``.
    **Cost:** O(N) per column and O(nC³). **Source:** SOA eq. 0.34; MC eq. 19–20.

    >>> from phipsi import operational_space_inertia
    >>> from phipsi.examples import seven_joint_arm
    >>> q = [0.1, 0.5, 0.2, 1.0, 0.3, 0.8, 0.1]
    >>> operational_space_inertia(seven_joint_arm(), q, ["tool"]).shape
    (6, 6)
    """
    return program_at(
        OPERATIONAL_SPACE_INERTIA, model, points, axes, operational_space_inertia, "dense"
    ).evaluate((q,), options)
