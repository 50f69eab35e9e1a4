"""Operational-space control: a frame follows a path; the motion left over does another task."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import (
    BIAS_FORCES,
    GRAVITY_FORCES,
    JACOBIAN_DOT_V,
    POINT_VELOCITIES,
    inverse_dynamics,
)
from phipsi.core.arrays import Tracer
from phipsi.core.compiler import compile
from phipsi.core.model import Model, Pose, Refusal, as_floats, as_list, point_set, supports
from phipsi.core.operators import I, J, Lambda, mass_matrix, pose
from phipsi.core.spatial import so3_log
from phipsi.errors import InputError, PhipsiWarning, is_whole, true_or_false
from phipsi.simulation.control.actuated_mechanism import DrivenMechanism
from phipsi.simulation.control.compiled_control import (
    POINT_ACCELERATIONS,
    operational_efforts,
    operational_space,
)
from phipsi.simulation.control.references import ConstantPose, PoseReference, pose_state_at
from phipsi.simulation.runs.checks import checked_number
from phipsi.simulation.runs.rollout import SINGULAR_TASK
from phipsi.simulation.runs.user_functions import check_signature, name_of
from phipsi.support import one_line

Array = NDArray[Any]

# The equation of motion seen at the point, Λ⁻¹ α + μ + p = F, and the projector on the efforts that
# do not accelerate it; for reading, and as the second route in the tests.
INERTIA = Lambda.inv
VELOCITY_FORCES = Lambda.inv @ (
    J @ mass_matrix.inv @ (BIAS_FORCES - GRAVITY_FORCES) - JACOBIAN_DOT_V
)
POINT_GRAVITY_FORCES = Lambda.inv @ J @ mass_matrix.inv @ GRAVITY_FORCES
NULL_PROJECTOR = I - J.T @ Lambda.inv @ J @ mass_matrix.inv

COMPONENTS = {"pose": (0, 1, 2, 3, 4, 5), "rotation": (0, 1, 2), "position": (3, 4, 5)}


class OperationalSpaceDynamics(NamedTuple):
    """Inertia, velocity forces and gravity forces at a frame (operational space).

    inertia α + μ + p = F for the acceleration α and force F in the m directions of the task, world
    axes.

    Parameters
    ----------
    inertia : ndarray, shape (..., m, m)
        Operational-space inertia.
    velocity_forces : ndarray, shape (..., m)
        Velocity forces μ.
    gravity_forces : ndarray, shape (..., m)
        Gravity forces p.
    """

    inertia: Array
    velocity_forces: Array
    gravity_forces: Array


@final
@supports(
    loops=True,
    flexible=Refusal(
        "it prescribes the acceleration of a frame, which also depends on modes, and these are "
        "not actuated. PDGravity actuates the joints only; pp.linearize returns the matrices "
        "for a regulator of joints and modes."
    ),
    rotors=True,
)
class OperationalSpace:
    """Operational-space control: a frame follows a path; the null space does a second task.

    ``control(t, q, v)`` returns tau (..., nv). With α = A_ref + kd (V_ref − V) + kp e at the frame,
    e = [log(R_ref R*); p_ref − p] in world axes, and any tau τ₀ of the second task:

        tau = J* (Λ⁻¹ α + μ + p) + (I − J* J̄*) τ₀,     J̄* = Λ⁻¹ J ℳ⁻¹,   Λ = J ℳ⁻¹ J*
        μ = Λ⁻¹ (J ℳ⁻¹ H φ [M φ* a + b] − J̇ v),        p = J̄* H φ M φ* gravity

    which is computed as τ₀ + J* Λ⁻¹ [α − (J̇ v + J ℳ⁻¹ (τ₀ − bias))]: the force that changes the
    acceleration τ₀ alone would cause into α. The position error obeys ë + kd ė + kp e = 0 in each
    world axis, whatever τ₀ is; the rotation error obeys ω̇_e + kd ω_e + kp e = 0.

    Near a singularity Λ has eigenvalues that go to zero and Λ⁻¹ α asks for unbounded forces. Below
    `singularity` times the largest, an eigenvalue's inverse 1/s is replaced by s/(s² + δ²), δ
    growing smoothly from 0: the frame then does not follow in that direction, τ₀ acts there, and
    forces stay bounded. Rotations and translations are each measured by their mean admittance. The
    first time it happens a `PhipsiWarning` says when, where and in which direction; `damped_calls`
    counts the calls, and `conditioning(q)` measures the distance.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    frame : str or tuple
        A body, a frame or (name, offset in m).
    reference : callable, Pose or array_like
        A function t → (pose (4, 4), velocity (6), acceleration (6)) such as `CartesianPath`, or a
        `Pose`, (4, 4) or position (3,) to hold.
    kp, kd : array_like
        Gains, 1/s² and 1/s, numbers or one per direction of the task.
    components : {"pose", "position", "rotation"} or tuple of int, optional
        Directions of the task, or indices of [ω; v] in world axes, such as (3, 4) for x and y.
    null_space : callable, optional
        A controller ``(t, q, v) -> τ₀`` such as `PDGravity`. Default: the tau that compensates the
        bias and lets the self-motion die out at the rate `null_damping`.
    null_damping : float, optional
        Rate of the default `null_space`, 1/s. Default: 2.
    singularity : float, optional
        Ratio of eigenvalues below which the inverse is damped.
    compensate_damping : bool, optional
        As for `ComputedTorque`.
    actuated : sequence of str, optional
        As for `ComputedTorque`.

    Notes
    -----
    **Cost:** O(N), three programs; neither J nor ℳ is formed. With loops or `actuated` O(nv³): ℳ⁻¹
    is then Y, the derivative of accelerations that keep the constraints with respect to tau, and
    the drives supply a tau with the same effect.
    **Source:** Khatib 1987, IEEE J. Robotics and Automation 3; SOA eq. 0.34.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> rest = pp.control.PDGravity(arm, [0.5, 0.5, 0.5], kp=20, kd=5)
    >>> control = pp.control.OperationalSpace(
    ...     arm, "tip", (1.5, 1.5, 0), kp=100, kd=20, components=(3, 4), null_space=rest
    ... )
    >>> control(0.0, [0.3, 0.6, 0.9], [0.0, 0.0, 0.0]).shape
    (3,)
    """

    parameters: ClassVar[Mapping[str, str]] = {
        "kp": "kp", "kd": "kd", "reference": "reference",
        "null_damping": "_own_damping", "null_space": "null_space",
    }  # fmt: skip
    not_negative: ClassVar[tuple[str, ...]] = ("kp", "kd", "null_damping")

    def __init__(
        self,
        model: Model,
        frame: tuple[str, tuple[float, int, float]] | str,
        reference: PoseReference | Pose | ArrayLike,
        kp: ArrayLike,
        kd: ArrayLike,
        *,
        components: str | tuple[int, ...] = "pose",
        null_space: Callable[[float, Array, Array], Array] | None = None,
        null_damping: float | None = None,
        singularity: float = 1e-4,
        compensate_damping: bool = False,
        actuated: Sequence[str] | None = None,
    ) -> None:
        self._mechanism = DrivenMechanism(model, OperationalSpace, actuated)
        model = self._mechanism.tree
        self.model, self.frame, self.null_space = model, frame, null_space
        if callable(reference):
            check_signature(reference, f"reference {name_of(reference)!r}", "t")
        if null_space is not None:
            check_signature(null_space, f"null_space {name_of(null_space)!r}", "t", "q", "v")
            if null_damping is not None:
                raise InputError(
                    f"null_damping={null_damping!r} has no effect together with null_space=, "
                    "which replaces it. Remove one of the two, or damp in null_space=:\n"
                    "    null_space=lambda t, q, v: -2.0 * v"
                )
        null_damping = 2.0 if null_damping is None else null_damping
        self.reference = reference if callable(reference) else ConstantPose(reference)
        self.rows = _rows(components)
        self.kp, self.kd = (_gains(x, len(self.rows), n) for x, n in ((kp, "kp"), (kd, "kd")))
        kind = "a finite number of 1/s,"
        self.null_damping = checked_number(null_damping, "null_damping", kind, zero=True)
        self.singularity = checked_number(
            singularity, "singularity", "between 0 and 1,", zero=False
        )
        self._own_damping = self.null_damping if null_space is None else None
        if not 0 < self.singularity < 1:
            raise InputError(f"singularity={singularity!r} must be between 0 and 1")
        compensated = true_or_false("compensate_damping", compensate_damping)
        self.damping = model.damping if compensated else np.zeros(model.nv)
        self.damped_calls = 0
        self._where = where = point_set(model, [frame])
        self._keys = [(operational_space, where.key, self.rows, own) for own in (False, True)]
        self._offset, self._axes, self._body = where.offset[0], where.rotation[0], where.body[0]
        if self._body < 0:
            raise InputError(f"{frame!r} is fixed in the world: no joint moves it")
        self._push = compile(J.T, model, points=where)
        if self._mechanism.is_tree:
            state = (pose, POINT_VELOCITIES, Lambda, POINT_ACCELERATIONS)
            modes = ("apply", "apply", "dense", "apply")
            self._state = compile(state, model, mode=modes, points=where)
            self._matrices = compile((J, J @ mass_matrix.inv), model, mode="dense", points=where)
            return
        terms = (pose, POINT_VELOCITIES, JACOBIAN_DOT_V, BIAS_FORCES, J)
        modes = ("apply", "apply", "apply", "apply", "dense")
        self._terms = compile(terms, model, mode=modes, points=where)
        self._state, self._matrices = self._constrained_state, self._constrained_matrices

    def __repr__(self) -> str:
        return one_line(self, self.model, self.frame, self.reference, kp=self.kp, kd=self.kd)

    def _constrained_state(
        self, q: ArrayLike, v: ArrayLike, tau: ArrayLike
    ) -> tuple[Array, Array, Array, Array]:
        """Poses, velocity, admittance and acceleration of the frame under efforts tau."""
        bodies, velocity, drift, bias, jacobian = self._terms(q, v)
        by_efforts, own = self._mechanism.response(q, v)
        vdot = own + (by_efforts @ (np.asarray(tau) - bias)[..., None])[..., 0]
        acceleration = drift + (jacobian @ vdot[..., None])[..., None, :, 0]
        admittance = jacobian @ by_efforts @ np.swapaxes(jacobian, -1, -2)
        return bodies, velocity, admittance, acceleration

    def _constrained_matrices(self, q: ArrayLike) -> tuple[Array, Array]:
        """J, and J Y: accelerations of the frame by efforts."""
        rest = np.zeros(self.model.nv)
        jacobian = self._terms(q, rest)[-1]
        return jacobian, jacobian @ self._mechanism.response(q, rest)[0]

    def __call__(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """Return tau (..., nv)."""
        if isinstance(q, Tracer):
            return self._traced(t, q, v)
        q, v = as_floats("q", q), as_floats("v", v)
        reference, null = pose_state_at(self.reference, t), self.null_space
        second, own = () if null is None else (np.asarray(null(t, q, v)),), null is None
        settings = np.array((self.null_damping, self.singularity))
        given = (self.kp, self.kd, self.damping, settings)

        def slow(q: Array, v: Array, *others: Array) -> Array:
            return self._by_arrays(t, q, v, others[:3], *others[3 + len(given) :])

        if not self._mechanism.is_tree:
            return slow(q, v, *reference, *given, *second)
        code = self.model.cache.get(self._keys[own]) or operational_space(
            self.model, self._where, self.rows, self._keys[own], own=own
        )
        return code.joined(slow, q, v, *reference, *given, *second)

    def _traced(self, t: Any, q: Any, v: Any) -> Any:
        """The efforts in a compiled run, which stops near singularities."""
        goal, velocity, acceleration = pose_state_at(self.reference, t)
        at = {"q": q, "v": v, "goal": goal, "velocity": velocity, "acceleration": acceleration}
        settings = self._own_damping, self.singularity
        at |= {"kp": self.kp, "kd": self.kd, "damping": self.damping, "settings": settings}
        if self.null_space is not None:
            at["second"] = self.null_space(t, q, v)
        mechanism = self._mechanism
        status = SINGULAR_TASK + 8 * (int(self._body) + 1)
        efforts, _ = operational_efforts(
            self.model, self._where, self.rows, at, mechanism.traced_response, status
        )
        return mechanism.efforts(q, efforts)

    def _by_arrays(
        self, t: float, q: Array, v: Array, reference: Sequence[Array], tau_0: Array | None = None
    ) -> Array:
        """Efforts by formulas on arrays, singularities included."""
        if tau_0 is None:
            tau_0 = inverse_dynamics(self.model, q, v, -self.null_damping * v) + self.damping * v
        bodies, velocity, admittance, drift = self._state(q, v, tau_0 - self.damping * v)
        wanted = self._wanted(reference, bodies, velocity[..., 0, :])
        lacking = wanted - drift[..., 0, self.rows]
        inverse, is_damped, direction = self._inverse(admittance)
        if np.any(is_damped):
            self._warn(t, is_damped, direction)
        force = np.zeros((*lacking.shape[:-1], 1, 6))
        force[..., 0, self.rows] = np.einsum("...ij,...j->...i", inverse, lacking)
        return self._mechanism.efforts(q, tau_0 + self._push(q, force))

    def errors(self, t: float, q: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        """e and V_ref − V (..., m) of the frame, in the directions of the task."""
        bodies, velocity, *_ = self._state(q, v, np.zeros(self.model.nv))
        return self._errors(pose_state_at(self.reference, t), bodies, velocity[..., 0, :])

    def dynamics(self, q: ArrayLike, v: ArrayLike) -> OperationalSpaceDynamics:
        """Λ⁻¹, μ and p of the frame in the directions of the task (damped near singularities)."""
        zero = np.zeros(self.model.nv)
        *_, admittance, moving = self._state(q, v, zero)
        *_, still = self._state(q, zero, zero)
        inverse, _, _ = self._inverse(admittance)
        rows = self.rows
        p = -np.einsum("...ij,...j->...i", inverse, still[..., 0, rows])
        mu = -np.einsum("...ij,...j->...i", inverse, moving[..., 0, rows]) - p
        return OperationalSpaceDynamics(inverse, mu, p)

    def null_projector(self, q: ArrayLike) -> Array:
        """I − J* J̄* (..., nv, nv): what it leaves of any efforts does not accelerate the frame."""
        jacobian, to_point = (m[..., self.rows, :] for m in self._matrices(q))
        admittance = self._state(q, np.zeros(self.model.nv), np.zeros(self.model.nv))[2]
        inverse, _, _ = self._inverse(admittance)
        return np.eye(self.model.nv) - np.swapaxes(jacobian, -1, -2) @ inverse @ to_point

    def conditioning(self, q: ArrayLike) -> Array:
        """Smallest over largest eigenvalue of the scaled Λ; damped below `singularity`."""
        zero = np.zeros(self.model.nv)
        s, _, _ = self._eigenvalues(self._state(q, zero, zero)[2])
        return s[..., 0] / s[..., -1]

    def _wanted(self, state: Sequence[Array], bodies: Array, velocity: Array) -> Array:
        e, e_rate = self._errors(state, bodies, velocity)
        return np.asarray(state[2])[..., self.rows] + self.kd * e_rate + self.kp * e

    def _errors(
        self, state: Sequence[Array], bodies: Array, velocity: Array
    ) -> tuple[Array, Array]:
        goal, V_ref, _ = (np.asarray(x, dtype=np.float64) for x in state)
        R_body, p_body = bodies[..., self._body, :3, :3], bodies[..., self._body, :3, 3]
        turn = so3_log(goal[..., :3, :3] @ np.swapaxes(R_body @ self._axes, -1, -2))
        shift = goal[..., :3, 3] - p_body - R_body @ self._offset
        e = np.concatenate(np.broadcast_arrays(turn, shift), axis=-1)
        return e[..., self.rows], (V_ref - velocity)[..., self.rows]

    def _eigenvalues(self, admittance: Array) -> tuple[Array, Array, Array]:
        """Eigenvalues (..., m) and vectors of S⁻¹ Λ S⁻¹, and S (..., m).

        S holds the root mean admittances of rotations and of translations, so that eigenvalues can
        be compared and no choice of units decides what is singular.
        """
        chosen = admittance[..., self.rows, :][..., self.rows]
        diagonal = np.maximum(np.einsum("...ii->...i", chosen), 0.0)
        scale = np.ones_like(diagonal)
        is_turn = np.array(self.rows) < 3
        for part in (is_turn, ~is_turn):
            if part.any():
                mean = diagonal[..., part].mean(axis=-1, keepdims=True)
                scale[..., part] = np.where(mean > 0, np.sqrt(mean), 1.0)
        scaled = chosen / (scale[..., :, None] * scale[..., None, :])
        s, U = np.linalg.eigh((scaled + np.swapaxes(scaled, -1, -2)) / 2)
        return np.maximum(s, 0.0), U, scale

    def _inverse(self, admittance: Array) -> tuple[Array, Array, Array]:
        """Λ⁻¹ of the task's directions, whether it had to be damped, and the weakest direction."""
        s, U, scale = self._eigenvalues(admittance)
        edge = np.maximum(self.singularity * s[..., -1:], 1e-300)
        delta = edge * np.maximum(1 - (s / edge) ** 2, 0.0)
        inverse = np.where(s >= edge, 1 / np.maximum(s, edge), s / (s**2 + delta**2 + 1e-300))
        sides = U / scale[..., :, None]
        matrix = (sides * inverse[..., None, :]) @ np.swapaxes(sides, -1, -2)
        return matrix, s[..., 0] < edge[..., 0], scale * U[..., 0]

    def _warn(self, t: float, is_damped: Array, direction: Array) -> None:
        self.damped_calls += 1
        if self.damped_calls > 1:
            return
        first = direction.reshape(-1, len(self.rows))[int(np.argmax(is_damped))]
        along = np.zeros(6)
        along[list(self.rows)] = first / np.linalg.norm(first)
        warnings.warn(
            (
                f"operational-space control of {self.frame!r} is near a singularity at t = {t:g} "
                f"s: joint torques hardly accelerate it along [ω; v] = "
                f"{along.round(3).tolist()} (world axes), less than {self.singularity:g} of its "
                "easiest direction. There the task is damped and not followed. Pass fewer "
                "components=, or keep the path away from the singularity."
            ),
            PhipsiWarning,
            stacklevel=6 if self._mechanism.is_tree else 5,  # the line of the caller
        )


def _rows(components: str | tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(components, str):
        if components in COMPONENTS:
            return COMPONENTS[components]
    else:
        rows = tuple(as_list("components", components, "(3, 4)"))
        whole = all(map(is_whole, rows))
        if whole and rows and sorted(set(rows)) == list(rows) and set(rows) <= set(range(6)):
            return rows
    raise InputError(
        f"components={components!r} is not one of {', '.join(map(repr, COMPONENTS))}, nor "
        "increasing indices of [ωx, ωy, ωz, vx, vy, vz]"
    )


def _gains(value: ArrayLike, count: int, what: str) -> Array:
    array = as_floats(what, value)
    if array.shape not in ((), (count,)) or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            f"{what}={value!r} must be one number or {count}, one per direction of the task, "
            "finite and not negative"
        )
    return np.array(np.broadcast_to(array, (count,)))
