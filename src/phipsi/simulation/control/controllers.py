"""Ready controllers: callables ``controller(t, q, v) -> tau``.

    ComputedTorque      joint space: linear error dynamics by inverse dynamics
    PDGravity           joint space: springs and dampers on top of gravity compensation
    OperationalSpace    a frame follows a path; the motion left over does another task
    Saturated           any of them within the efforts the drives can give

They keep no state that changes the answer, and batch on leading axes of q and v. They take trees
and mechanisms with loops. `actuated` names the joints that have a drive, by default all; the drives
must suffice for every motion, so a free base without a drive (a walking robot) is rejected. A free
joint has a drive only if `actuated` names it: a spacecraft with thrusters says so.

In a compiled run their gains are parameters, by the names that `parameters` of the class lists:
"PDGravity.kp", or "Saturated.controller.kp" of one inside another; so is a target that is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import gravity_forces, inverse_dynamics
from phipsi.core.arrays import Tracer, as_array
from phipsi.core.backends import joint_at
from phipsi.core.model import UNAFFECTED, Model, Refusal, as_floats, supports, tree_of
from phipsi.errors import InputError, true_or_false
from phipsi.laws import Law
from phipsi.simulation.control.actuated_mechanism import DrivenMechanism
from phipsi.simulation.control.compiled_control import computed_torque, pd_gravity
from phipsi.simulation.control.operational_space import OperationalSpace, OperationalSpaceDynamics
from phipsi.simulation.control.references import Constant, JointReference, joint_state_at
from phipsi.simulation.control.tracking import Tracking
from phipsi.simulation.runs.user_functions import check_signature, name_of
from phipsi.support import one_line

Array = NDArray[Any]
Controller = Callable[[float, Array, Array], Array]

__all__ = [
    "ComputedTorque",
    "OperationalSpace",
    "OperationalSpaceDynamics",
    "PDGravity",
    "Saturated",
]


@final
@supports(
    loops=True,
    flexible=Refusal(
        "it prescribes the acceleration of every coordinate, and modes are not actuated. "
        "PDGravity actuates the joints only; pp.linearize returns the matrices for a regulator "
        "of joints and modes."
    ),
    rotors=True,
)
class ComputedTorque:
    """Computed-torque control: inverse dynamics with feedback, so that ë + kd ė + kp e = 0.

    ``control(t, q, v)`` returns tau (..., nv), zero at joints without a drive:
    tau = ℳ (v̇_ref + kd ė + kp e) + H φ [M φ* (a + gravity) + b], by one call of
    `inverse_dynamics`. Position errors are linear and decoupled exactly; rotations of spherical and
    free joints are compared on the manifold (`simulation/control/tracking.py` says how).

    With closed loops the joints cannot accelerate independently. As many drives as degrees of
    freedom make the errors of the driven joints obey the equation above, and the others follow;
    more drives make the accelerations nearest to it in kinetic energy, with minimum Σ tau². Fewer
    are rejected.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    reference : callable or array_like, shape (nq,)
        A function t → (q, v, vdot) such as `JointPath`, or a configuration to hold.
    kp, kd : array_like
        Gains, 1/s² and 1/s, numbers or one per velocity; critically damped for kd = 2 √kp.
    compensate_damping : bool, optional
        Whether to supply what viscous damping of the joints, `model.damping`, takes away; for
        simulations and machines that have it.
    actuated : sequence of str, optional
        Names of the joints that have a drive. Default: all.

    Notes
    -----
    **Cost:** two sweeps, O(N); with loops or `actuated` O(nv³).
    **Source:** Luh, Walker and Paul 1980, IEEE Trans. Aut. Control 25.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> control = pp.control.ComputedTorque(arm, [0.0], kp=100, kd=20)
    >>> control(0.0, [0.0], [0.0])            # on the reference: gravity is left
    array([4.905])
    """

    parameters: ClassVar[Mapping[str, str]] = {
        "kp": "kp", "kd": "kd", "reference": "reference",
    }  # fmt: skip
    not_negative: ClassVar[tuple[str, ...]] = ("kp", "kd")

    def __init__(
        self,
        model: Model,
        reference: JointReference | ArrayLike,
        kp: ArrayLike,
        kd: ArrayLike,
        *,
        compensate_damping: bool = False,
        actuated: Sequence[str] | None = None,
    ) -> None:
        self._mechanism = DrivenMechanism(model, ComputedTorque, actuated)
        self.model = model = self._mechanism.tree
        self.reference = _joint_reference(model, reference)
        self.kp, self.kd = gains(model, kp, "kp"), gains(model, kd, "kd")
        compensated = true_or_false("compensate_damping", compensate_damping)
        self.damping = model.damping if compensated else np.zeros(model.nv)
        self._tracking = Tracking(model)

    def __repr__(self) -> str:
        return one_line(self, self.model, self.reference, kp=self.kp, kd=self.kd)

    def __call__(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """Return tau (..., nv)."""
        reference = joint_state_at(self.model, self.reference, t)
        if self._mechanism.is_tree and not isinstance(q, Tracer):
            code = self.model.cache.get(computed_torque) or computed_torque(self.model)
            tau = code.fast(q, v, *reference, self.kp, self.kd, self.damping)
            if tau is not None:
                return tau
        e, e_rate, ff = self._tracking.errors(q, v, *reference)
        u = ff + self.kd * e_rate + self.kp * e
        vdot = self._mechanism.accelerations(q, v, self._tracking.accelerations(q, v, u))
        tau = inverse_dynamics(self.model, q, v, vdot) + self.damping * as_array(v)
        return self._mechanism.efforts(q, tau)


@final
@supports(
    loops=True,
    flexible=Refusal(
        "the share of the weight that constraint forces carry depends on the deformation",
        ("To ignore the deformation, make the bodies rigid:\n    system.with_rigid_bodies()"),
        combined_with="loops",
    ),
    rotors=True,
)
class PDGravity:
    """PD control of joints with gravity compensation.

    ``control(t, q, v)`` returns tau (..., nv), zero at joints without a drive and at modes:
    tau = H φ M φ* gravity + kp e + kd ė, e = q_ref ⊖ q on the manifold. The energy
    ½ v* ℳ v + ½ e* kp e falls by v* (kd + damping) v, so a constant reference is reached from any
    state in which no rotation is off by a half turn; inertias need not be known. A moving reference
    is followed with a lag.

    With closed loops the drives carry what constraint forces leave of the weight, with minimum
    Σ tau². Modes of flexible bodies have no drive, spring or damper but their own: the joints
    arrive at the reference, and the bodies sag; modal coordinates of the reference do not matter.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    reference : callable or array_like, shape (nq,)
        A configuration, or a function t → (q, v, vdot), of which vdot is not used.
    kp, kd : array_like
        Gains, N·m/rad or N/m and N·m·s/rad or N·s/m, numbers or one per velocity. At quaternion
        joints the energy argument needs the same gain in all three directions.
    actuated : sequence of str, optional
        Names of the joints that have a drive; springs and dampers act at these only. Default: all.

    Notes
    -----
    **Cost:** two sweeps, O(N); with loops or `actuated` O(nv³).
    **Source:** Takegaki and Arimoto 1981, J. Dynamic Systems 103.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> pp.control.PDGravity(arm, [0.1], kp=50, kd=5)(0.0, [0.0], [0.0])
    array([9.905])
    """

    parameters: ClassVar[Mapping[str, str]] = {
        "kp": "kp", "kd": "kd", "reference": "reference",
    }  # fmt: skip
    not_negative: ClassVar[tuple[str, ...]] = ("kp", "kd")

    def __init__(
        self,
        model: Model,
        reference: JointReference | ArrayLike,
        kp: ArrayLike,
        kd: ArrayLike,
        *,
        actuated: Sequence[str] | None = None,
    ) -> None:
        self._mechanism = DrivenMechanism(model, PDGravity, actuated)
        self.model = model = self._mechanism.tree
        self.reference = _joint_reference(model, reference)
        driven = self._mechanism.driven
        self.kp, self.kd = (driven * gains(model, x, n) for x, n in ((kp, "kp"), (kd, "kd")))
        self._tracking = Tracking(model)

    def __repr__(self) -> str:
        return one_line(self, self.model, self.reference, kp=self.kp, kd=self.kd)

    def __call__(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """Return tau (..., nv)."""
        reference = joint_state_at(self.model, self.reference, t)
        if self._mechanism.is_tree and not isinstance(q, Tracer):
            code = self.model.cache.get(pd_gravity) or pd_gravity(self.model)
            tau = code.fast(q, v, *reference, self.kp, self.kd)
            if tau is not None:
                return tau
        e, e_rate, _ = self._tracking.errors(q, v, *reference)
        pull = self._tracking.efforts(q, self.kp * e + self.kd * e_rate)
        if not self._mechanism.is_tree:  # gains that a run may change are those of all joints
            pull = self._mechanism.driven * pull
        weight = gravity_forces(self.model, q)
        if self.model.is_flexible:
            return self._mechanism.driven * (weight + pull)
        return self._mechanism.efforts(q, weight) + pull


@final
@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
class Saturated:
    """A controller whose torques and forces are limited to those of the drives.

    Each of them is clipped on its own, so the direction of tau in joint space may change.

    Parameters
    ----------
    controller : callable
        Any ``(t, q, v) -> tau``.
    model : Model
        The model.
    efforts : array_like, optional
        Largest magnitudes, N·m or N, a number or one per velocity. Default: those of
        ``model.joint_properties``, which robot files contain; drives that push and pull with
        different forces (`lower_effort`) have both bounds then.

    Attributes
    ----------
    limits : ndarray, shape (nv,)
        The largest magnitudes.
    saturated : ndarray, shape (nv,)
        How often each was clipped so far.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> weak = pp.control.Saturated(lambda t, q, v: [9.0], arm, efforts=5.0)
    >>> weak(0.0, [0.0], [0.0])
    array([5.])
    """

    parameters: ClassVar[Mapping[str, str]] = {"efforts": "limits", "controller": "controller"}
    not_negative: ClassVar[tuple[str, ...]] = ("efforts",)

    def __init__(
        self, controller: Controller, model: Model, efforts: ArrayLike | None = None
    ) -> None:
        model = tree_of(model, Saturated)
        if isinstance(controller, Law) and controller.arguments != ("t", "q", "v"):
            raise InputError(_limited_law(controller, efforts))
        check_signature(controller, f"controller {name_of(controller)!r}", "t", "q", "v")
        self.controller, self.model = controller, model
        self.limits = _rated_efforts(model) if efforts is None else gains(model, efforts, "efforts")
        self._lower = _rated_lower_efforts(model) if efforts is None else None
        self.saturated = np.zeros(model.nv, dtype=int)

    def __repr__(self) -> str:
        return one_line(self, self.controller, self.model, efforts=self.limits)

    def __call__(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """Return tau (..., nv) within the limits."""
        tau = as_array(self.controller(t, as_array(q), as_array(v)))
        if not isinstance(tau, Tracer):  # inside a law nothing is counted
            cut = (tau > self.limits) | (tau < self._least(self.limits))
            self.saturated += cut.reshape(-1, self.model.nv).sum(axis=0)
        return np.clip(tau, self._least(self.limits), self.limits)

    def _least(self, largest: Array) -> Array:
        """The lower bounds that go with the upper ones."""
        if self._lower is None:
            return -largest
        is_own, own = self._lower
        return np.where(is_own, own, -largest)


def _joint_reference(model: Model, given: JointReference | ArrayLike) -> JointReference:
    if not callable(given):
        return Constant(model, given)
    check_signature(given, f"reference {name_of(given)!r}", "t")
    return given


def gains(model: Model, value: ArrayLike, what: str) -> Array:
    """One number per rate, from one number or nv of them: not negative, and finite.

    Efforts that are never cut off may be infinite.
    """
    array = as_floats(what, value)
    if array.shape not in ((), (model.nv,)):
        raise InputError(
            f"{what} has shape {array.shape}; it must be one number or nv = {model.nv} numbers"
        )
    full = np.broadcast_to(array, (model.nv,))
    bad = np.isnan(full) | (full < 0) | (np.isinf(full) & (what != "efforts"))
    if bad.any():
        i = int(np.argmax(bad))
        joint = joint_at(model, model.v_slices, i)
        wanted = "must not be negative" if full[i] < 0 else "must be a finite number"
        raise InputError(f"{what} is {full[i]} at joint {joint!r}; it {wanted}")
    return np.array(full)


def _limited_law(law: Law, efforts: Any) -> str:
    """How a law is limited, which is no function of (t, q, v)."""
    limit = "limit" if efforts is None else f"{efforts}"
    own = f"    {law.name}.bind(limit={limit})"
    inside = f"    return np.clip(tau, -{limit}, {limit})"
    return (
        f"Saturated takes a function of (t, q, v), and {law.name!r} is a law, whose arguments are "
        "passed by name. "
        + (
            f"Its limits are an argument:\n{own}"
            if "limit" in law.arguments
            else f"Limit its torques in the law itself:\n{inside}"
        )
    )


def _rated_efforts(model: Model) -> Array:
    limits = np.full(model.nv, np.inf)
    for name, properties in model.joint_properties.items():
        limits[model.joint_rates(name)] = properties.effort
    if not np.isfinite(limits).any():
        raise InputError(
            "the model has no effort limits (model.joint_properties). Pass them:\n"
            "    Saturated(controller, model, efforts=100.0)"
        )
    return limits


def _rated_lower_efforts(model: Model) -> tuple[Array, Array] | None:
    """Which rates have a least effort of their own, and those; None if the file gives none."""
    found = {
        n: r.lower_effort for n, r in model.joint_properties.items() if r.lower_effort is not None
    }
    if not found:
        return None
    lower = np.full(model.nv, -np.inf)
    for name, effort in found.items():
        lower[model.joint_rates(name)] = effort
    return np.isfinite(lower), np.where(np.isfinite(lower), lower, 0.0)
