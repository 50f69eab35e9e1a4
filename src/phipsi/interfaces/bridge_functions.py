"""The functions that `phipsi.torch` and `phipsi.jax` offer, written once for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, final

import numpy as np

from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics.energy import KINETIC_ENERGY
from phipsi.algorithms.dynamics.equations_of_motion import (
    FORWARD_DYNAMICS,
    INVERSE_DYNAMICS,
    inverse_dynamics,
)
from phipsi.algorithms.dynamics.forms import closed_form
from phipsi.algorithms.kinematics.motions import frame_poses
from phipsi.expressions.node import Expr
from phipsi.interfaces.bridge import Bridge, ExpressionBridge, PosesBridge, RolloutBridge
from phipsi.model.mechanisms import tree_of
from phipsi.model.model import Model
from phipsi.model.points import point_set

Function = Callable[..., Any]


@final
class Functions:
    """The named functions of one framework.

    **Arguments:** `wrap`, which makes a bridge a function of the framework's arrays.
    """

    def __init__(self, wrap: Callable[[Bridge], Function]) -> None:
        def wrapped(kind: Callable[..., Bridge], *arguments: Any) -> Function:
            call = wrap(bridge := kind(*arguments))
            call.inputs = bridge.names  # type: ignore[attr-defined]
            return call

        self._new = wrapped
        self._kept = lru_cache(maxsize=128)(wrapped)

    def function(
        self,
        expr: Expr,
        model: Model | System,
        *,
        points: Sequence[Any] | None = None,
        backend: str | None = None,
    ) -> Function:
        """A vector or scalar expression as a function that is differentiable by all its inputs.

        It takes the inputs of the compiled program in their order (`.inputs`), with batches on
        leading axes. Forward mode uses the derivative of the expression, reverse mode the sweeps of
        its adjoint.

        >>> import phipsi.torch as pt             # or phipsi.jax            # doctest: +SKIP
        >>> from phipsi.operators import mass_matrix, tau
        >>> solve = pt.function(mass_matrix.inv @ tau, model)                # doctest: +SKIP
        >>> vdot = solve(q, tau)                                             # doctest: +SKIP
        """
        return self._new(ExpressionBridge, expr, model, points, backend)

    def forward_dynamics(self, model: Model | System, q: Any, v: Any, tau: Any) -> Any:
        """Joint accelerations (..., nv) that efforts cause; see `phipsi.forward_dynamics`."""
        loops = isinstance(model, System) and model.n_rows > 0
        form = closed_form(None, False, False)[0] if loops else FORWARD_DYNAMICS
        return self._kept(ExpressionBridge, form, model, None, None)(q, v, tau)

    def inverse_dynamics(self, model: Model, q: Any, v: Any, vdot: Any) -> Any:
        """Joint efforts (..., nv) that a motion needs; see `phipsi.inverse_dynamics`."""
        model = tree_of(model, inverse_dynamics)
        return self._kept(ExpressionBridge, INVERSE_DYNAMICS, model, None, None)(q, v, vdot)

    def kinetic_energy(self, model: Model, q: Any, v: Any) -> Any:
        """Kinetic energy (...); see `phipsi.kinetic_energy`."""
        return self._kept(ExpressionBridge, KINETIC_ENERGY, model, None, None)(q, v)

    def frame_poses(self, model: Model, q: Any, frames: Sequence[Any]) -> Any:
        """Poses (..., k, 4, 4) of bodies, frames or points in the world."""
        tree = tree_of(model, frame_poses)
        return self._kept(PosesBridge, tree, point_set(tree, frames), None)(q)

    def rollout(
        self,
        model: Model | System,
        q0: Any,
        v0: Any,
        tau: Any,
        dt: float,
        *,
        integrator: str = "rk4",
    ) -> tuple[Any, Any]:
        """States (..., steps + 1, nq) and (..., steps + 1, nv) under the efforts (..., steps, nv).

        Reverse mode runs the adjoint of the integrator; see `phipsi.rollout_gradient`.
        """
        steps = int(np.shape(tau)[-2])
        return self._kept(RolloutBridge, model, float(dt), steps, integrator)(q0, v0, tau)
