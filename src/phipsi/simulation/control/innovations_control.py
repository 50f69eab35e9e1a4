"""Decoupled control in innovations coordinates, in which the mass matrix is the identity.

With ℳ = ℓ ℓ*, ℓ = (I + H φ K) D½, the residuals ν = ℓ* v obey ν̇ + μ(q, ν) = ε, ε = ℓ⁻¹ (tau −
gravity forces). For a reference ν_r = ℓ* v_r the choice ε = μ + ν̇_r + k (ν_r − ν) makes every
ν_r − ν decay on its own. Since μ = ℓ⁻¹ c − (dℓ*/dt) v, with s = v_r − v that is

    tau = ℳ v̇_r + c + gravity forces + ℓ [(dℓ*/dt) s + k ℓ* s]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import FACTOR, INVERSE_DYNAMICS, NORMALISED, normalised_rate
from phipsi.core.arrays import Tracer, as_array
from phipsi.core.model import Model, Refusal, supports
from phipsi.errors import InputError, true_or_false
from phipsi.simulation.control.actuated_mechanism import DrivenMechanism
from phipsi.simulation.control.compiled_control import compiled_tracking
from phipsi.simulation.control.controllers import gains, joint_reference
from phipsi.simulation.control.passivity import program_results, sliding_errors
from phipsi.simulation.control.references import JointReference, joint_state_at
from phipsi.simulation.control.tracking import Tracking
from phipsi.support import one_line

Array = NDArray[Any]


@final
@supports(
    loops=Refusal(
        "its coordinates make the mass matrix of the tree diagonal, and constraints couple them "
        "again",
        "Use computed torque:  pp.control.ComputedTorque(system, reference, kp, kd)",
    ),
    flexible=Refusal(
        "it prescribes a reference velocity of every coordinate, and modes are not actuated. "
        "PDGravity actuates the joints only."
    ),
    rotors=True,
)
class InnovationsControl:
    """Decoupled control in innovations coordinates: every residual decays on its own.

    ``control(t, q, v)`` returns tau (..., nv). The mass matrix has the factor ℓ = (I + H φ K) D½,
    ℳ = ℓ ℓ*, and the equations of motion in the residuals ν = ℓ* v are ν̇ + μ = ε: each of them has
    unit mass (`diagonal_dynamics`). With v_r = v_ref + rate e and s = v_r − v as for
    `PassivityBased`, the error n = ℓ* s obeys

        ṅ + k n = 0,      with a gain k of its own for each entry,

    so the energy ½ n* n = ½ s* ℳ s of the error is a sum of terms that decay independently, and e
    follows by ė = s − rate e.

    A compiled simulation records "InnovationsControl.residuals", n in J^½, and
    "InnovationsControl.lyapunov", ½ n* n in J. Gradients of a rollout do not go through this
    controller: the derivative of ℓ in reverse mode is not implemented.

    Parameters
    ----------
    model : Model
        A tree in which every joint is actuated.
    reference : callable or array_like, shape (nq,)
        A function t → (q, v, vdot) such as `JointPath`, or a configuration to hold.
    k : array_like
        Rates at which the residuals decay, 1/s, a number or one per velocity.
    rate : array_like
        The rate at which e decays on n = 0, 1/s, a number or one per velocity.
    compensate_damping : bool, optional
        As for `ComputedTorque`.
    actuated : sequence of str, optional
        As for `PassivityBased`.

    Notes
    -----
    tau = ℳ v̇_r + c + gravity forces + ℓ [(dℓ*/dt) s + k ℓ* s]. **Cost:** O(N), seven sweeps; the
    derivatives of P, D, G and ψ along v give dℓ*/dt. **Source:** MC sec. 6; Jain and Rodriguez
    1995.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> control = pp.control.InnovationsControl(arm, [0.3, 0.5], k=[8, 20], rate=3.0)
    >>> control(0.0, [0.0, 0.5], [0.0, 0.0]).round(3)
    array([56.654, 18.203])
    """

    parameters: ClassVar[Mapping[str, str]] = {"k": "k", "rate": "rate", "reference": "reference"}
    records: ClassVar[tuple[str, ...]] = ("residuals", "lyapunov")

    def __init__(
        self,
        model: Model,
        reference: JointReference | ArrayLike,
        k: ArrayLike,
        rate: ArrayLike,
        *,
        compensate_damping: bool = False,
        actuated: Sequence[str] | None = None,
    ) -> None:
        mechanism = DrivenMechanism(model, InnovationsControl, actuated)
        self.model = model = mechanism.tree
        if not mechanism.is_tree:
            raise InputError(
                f"InnovationsControl needs an actuator at every joint, not only at {actuated}: "
                "each residual contains the velocities of several joints"
            )
        self.reference = joint_reference(model, reference)
        self.k, self.rate = gains(model, k, "k"), gains(model, rate, "rate")
        compensated = true_or_false("compensate_damping", compensate_damping)
        self.damping = model.damping if compensated else np.zeros(model.nv)
        self._tracking = Tracking(model)

    def __repr__(self) -> str:
        return one_line(self, self.model, self.reference, k=self.k, rate=self.rate)

    def __call__(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """Return tau (..., nv)."""
        reference = joint_state_at(self.model, self.reference, t)
        if not isinstance(q, Tracer):
            code = self.model.cache.get(innovations_control) or innovations_control(self.model)
            none = np.zeros(self.model.nv)
            tau = code.fast(q, v, *reference, self.k, none, self.rate, self.damping)
            if tau is not None:
                return tau
        return _efforts(self._tracking, q, v, reference, self.k, self.rate, self.damping)

    def residuals(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """The errors n = ℓ* s (..., nv) of the residuals, in J^½."""
        reference = joint_state_at(self.model, self.reference, t)
        s = sliding_errors(self._tracking, q, v, reference, self.rate).s
        return _one(self.model, NORMALISED, q, s)

    def lyapunov(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """½ n* n (...), in J."""
        n = self.residuals(t, q, v)
        return 0.5 * (n * n).sum(axis=-1)


def innovations_control(model: Model) -> Any:
    """(q, v, q_ref, v_ref, vdot_ref, k, –, rate, damping) → tau, in machine code."""

    def formula(at: dict[str, Any]) -> list[Any]:
        q, v, *reference, k, _, rate, damping = at.values()
        return [_efforts(Tracking(model), q, v, reference, k, rate, damping)]

    return compiled_tracking(model, innovations_control, formula, "rate", "damping")


def _efforts(tracking: Tracking, q: Any, v: Any, reference: Sequence[Any], *numbers: Any) -> Any:
    k, rate, damping = numbers
    model, at = tracking.model, sliding_errors(tracking, q, v, reference, rate)
    inverse = _one(model, INVERSE_DYNAMICS, q, v, at.acceleration)
    n = _one(model, NORMALISED, q, at.s)
    turned = _one(model, normalised_rate(model.has_more_rows), q, v, at.s)
    return inverse + _one(model, FACTOR, q, turned + k * n) + damping * as_array(v)


def _one(model: Model, form: Any, q: Any, *args: Any) -> Any:
    """The result of one program."""
    return program_results(model, (form,), q, *args)[0]
