"""Passivity-based control: the closed loop has the Lyapunov function ½ s* ℳ s + ½ e* kp e.

With a reference velocity v_r beside the actual one, s = v_r − v, and τ = ℳ v̇_r + C(q, v) v_r + …,
the closed loop is ℳ ṡ + C s = −(feedback): ℳ stays in front of ṡ, and Ṁ − 2 C is skew-symmetric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import INVERSE_DYNAMICS, coriolis_form
from phipsi.core.arrays import Tracer, as_array
from phipsi.core.compiler import program_of
from phipsi.core.model import Model, Refusal, supports
from phipsi.core.operators import mass_matrix
from phipsi.errors import InputError, true_or_false
from phipsi.simulation.control.actuated_mechanism import DrivenMechanism
from phipsi.simulation.control.compiled_control import called, compiled_tracking
from phipsi.simulation.control.controllers import gains, joint_reference
from phipsi.simulation.control.references import JointReference, joint_state_at
from phipsi.simulation.control.tracking import Tracking
from phipsi.support import one_line

Array = NDArray[Any]


@final
@supports(
    loops=Refusal(
        "its reference velocities differ from those of the mechanism and do not keep the "
        "constraints, so the Lyapunov function need not decrease",
        "Use computed torque:  pp.control.ComputedTorque(system, reference, kp, kd)",
    ),
    flexible=Refusal(
        "it prescribes a reference velocity of every coordinate, and modes are not actuated. "
        "PDGravity actuates the joints only."
    ),
    rotors=True,
)
class PassivityBased:
    """Passivity-based tracking control: PD+, Slotine–Li, and the class of Wen and Bayard.

    ``control(t, q, v)`` returns tau (..., nv). With the error e, its rate ė and the reference
    velocity v_r = v_ref + rate e, each carried to the configuration of the mechanism, and
    s = v_r − v = ė + rate e,

        tau = ℳ v̇_r + C(q, v) v_r + H φ M φ* gravity + kp e + kd s

    | choice | controller |
    |---|---|
    | `rate` = 0 | PD+ of Paden and Panja; at rest `PDGravity` |
    | `kp` = 0 | Slotine–Li |
    | both | Wen–Bayard: exponential convergence with PD gains |

    The closed loop is ℳ ṡ + C s = −kp e − kd s. Since dℳ/dt − 2 C is skew-symmetric, the Lyapunov
    function ½ s* ℳ s + ½ e* kp e changes at the rate −s* kd s − e* rate kp e, which is not positive
    for any gains. Nothing is inverted. The model must be that of the mechanism: where masses differ
    or other forces act, the function may increase, and its record shows it.

    A compiled simulation records "PassivityBased.lyapunov" and "PassivityBased.lyapunov_rate".

    Parameters
    ----------
    model : Model
        A tree in which every joint is actuated.
    reference : callable or array_like, shape (nq,)
        A function t → (q, v, vdot) such as `JointPath`, or a configuration to hold.
    kp, kd : array_like
        Gains, N·m/rad or N/m and N·m·s/rad or N·s/m, numbers or one per velocity. At quaternion
        joints the Lyapunov function needs the same kp and rate in all three directions.
    rate : array_like, optional
        The rate λ at which e decays on s = 0, 1/s, a number or one per velocity. Default: 0.
    compensate_damping : bool, optional
        As for `ComputedTorque`.
    actuated : sequence of str, optional
        Names of the joints that have a drive, which must be all. It is needed where a joint is
        free: its six directions are actuated by thrusters, say. Default: all.

    Notes
    -----
    C(q, v) v_r is that of `coriolis_product`. **Cost:** two sweeps, O(N). **Source:** MC sec. 6;
    Wen and Bayard 1988; Slotine and Li 1987;
    Paden and Panja 1988.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> control = pp.control.PassivityBased(arm, [0.3, 0.5], kp=40, kd=10, rate=2.0)
    >>> control(0.0, [0.0, 0.5], [0.0, 0.0]).round(3)
    array([37.02 ,  4.305])
    >>> control.lyapunov(0.0, [0.0, 0.5], [0.0, 0.0]).round(4)
    np.float64(2.258)
    """

    parameters: ClassVar[Mapping[str, str]] = {
        "kp": "kp", "kd": "kd", "rate": "rate", "reference": "reference",
    }  # fmt: skip
    records: ClassVar[tuple[str, ...]] = ("lyapunov", "lyapunov_rate")

    def __init__(
        self,
        model: Model,
        reference: JointReference | ArrayLike,
        kp: ArrayLike,
        kd: ArrayLike,
        *,
        rate: ArrayLike = 0.0,
        compensate_damping: bool = False,
        actuated: Sequence[str] | None = None,
    ) -> None:
        mechanism = DrivenMechanism(model, PassivityBased, actuated)
        self.model = model = mechanism.tree
        if not mechanism.is_tree:
            lacking = [
                name
                for name, rates in zip(model.joint_names, model.v_slices, strict=True)
                if not mechanism.driven[rates].all()
            ]
            raise InputError(
                "PassivityBased needs an actuator at every joint, because its Lyapunov function "
                f"is that of all velocities; actuated= lacks {', '.join(map(repr, lacking))}. "
                "PDGravity accepts joints without actuators."
            )
        self.reference = joint_reference(model, reference)
        given = ((kp, "kp"), (kd, "kd"), (rate, "rate"))
        self.kp, self.kd, self.rate = (gains(model, x, name) for x, name in given)
        compensated = true_or_false("compensate_damping", compensate_damping)
        self.damping = model.damping if compensated else np.zeros(model.nv)
        self._tracking = Tracking(model)

    def __repr__(self) -> str:
        return one_line(self, self.model, self.reference, kp=self.kp, kd=self.kd, rate=self.rate)

    def __call__(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """Return tau (..., nv)."""
        reference = joint_state_at(self.model, self.reference, t)
        if not isinstance(q, Tracer):
            code = self.model.cache.get(passivity_based) or passivity_based(self.model)
            given = (self.kp, self.kd, self.rate, self.damping)
            tau = code.fast(q, v, *reference, *given)
            if tau is not None:
                return tau
        return _efforts(self._tracking, q, v, reference, self.kp, self.kd, self.rate, self.damping)

    def lyapunov(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """The Lyapunov function ½ s* ℳ s + ½ e* kp e (...), in J."""
        reference = joint_state_at(self.model, self.reference, t)
        at = sliding_errors(self._tracking, q, v, reference, self.rate)
        (momentum,) = program_results(self.model, (mass_matrix,), q, at.s)
        return 0.5 * _dot(at.s, momentum) + 0.5 * _dot(at.e, self.kp * at.e)

    def lyapunov_rate(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """Its rate −s* kd s − e* rate kp e (...), in W; never above zero."""
        reference = joint_state_at(self.model, self.reference, t)
        at = sliding_errors(self._tracking, q, v, reference, self.rate)
        return -_dot(at.along, self.kd * at.along) - _dot(at.e, self.rate * self.kp * at.e)


def passivity_based(model: Model) -> Any:
    """(q, v, q_ref, v_ref, vdot_ref, kp, kd, rate, damping) → tau, in machine code."""

    def formula(at: dict[str, Any]) -> list[Any]:
        q, v, *reference, kp, kd, rate, damping = at.values()
        return [_efforts(Tracking(model), q, v, reference, kp, kd, rate, damping)]

    return compiled_tracking(model, passivity_based, formula, "rate", "damping")


class SlidingErrors(NamedTuple):
    """e; ė + rate e in the coordinates of the errors and of the joints; v̇_r."""

    e: Any
    along: Any
    s: Any
    acceleration: Any


def sliding_errors(
    tracking: Tracking, q: Any, v: Any, reference: Sequence[Any], rate: Any
) -> SlidingErrors:
    """The errors of a motion against a reference, with the reference velocity v_ref + rate e."""
    e, e_rate, ff = tracking.errors(q, v, *reference)
    along = e_rate + rate * e
    wanted = ff + rate * tracking.rates_of_errors(e, e_rate)
    s, acceleration = tracking.ahead(q, v, along, wanted)
    return SlidingErrors(e, along, s, acceleration)


def _efforts(tracking: Tracking, q: Any, v: Any, reference: Sequence[Any], *numbers: Any) -> Any:
    """ℳ v̇_r + C v_r + gravity is the inverse dynamics of (v, v̇_r), and C s."""
    kp, kd, rate, damping = numbers
    model, at = tracking.model, sliding_errors(tracking, q, v, reference, rate)
    forms = (INVERSE_DYNAMICS, coriolis_form(model.has_more_rows))
    inverse, coriolis = program_results(model, forms, q, v, at.acceleration, at.s)
    push = tracking.efforts(q, kp * at.e + kd * at.along)
    return inverse + coriolis + push + damping * as_array(v)


def program_results(model: Model, forms: tuple[Any, ...], q: Any, *args: Any) -> Sequence[Any]:
    """Results of programs, of arrays or of traced values."""
    if isinstance(q, Tracer):
        return called(model, forms, q, *args)
    return program_of(forms, model)(q, *args)


def _dot(a: Any, b: Any) -> Any:
    """Sums of products over the last axis."""
    return (a * b).sum(axis=-1)
