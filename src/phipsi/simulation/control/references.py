"""Motions to follow: functions of time for controllers.

A joint reference is called with t (s) and gives (q, v, vdot); a pose reference gives (pose,
velocity, acceleration) of a frame in the world. Any function that does so is a reference; these are
the usual ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import System
from phipsi.core.arrays import Tracer, as_array, contains_tracer
from phipsi.core.backends import joint_at, real_array
from phipsi.core.model import (
    UNAFFECTED,
    Model,
    Pose,
    as_floats,
    as_list,
    as_numbers,
    mechanism_of,
    supports,
    tree_of,
    whole_number,
)
from phipsi.core.spatial import ARRAYS, sinc, so3_log, versine
from phipsi.errors import InputError
from phipsi.simulation.control.dependent_joints import FollowingJoints, moved_by
from phipsi.simulation.control.fourier_fit import fitted_series
from phipsi.simulation.integrators.motion import Motion
from phipsi.simulation.runs.checks import checked_time
from phipsi.simulation.runs.user_functions import name_of
from phipsi.support import one_line

Array = NDArray[Any]

__all__ = [
    "CartesianPath",
    "Constant",
    "ConstantPose",
    "FourierPath",
    "JointPath",
    "JointState",
    "PoseState",
]


class JointState(NamedTuple):
    """Configuration, velocities and accelerations that a joint reference returns.

    Parameters
    ----------
    q, v, vdot : ndarray, shape (nq,), (nv,) and (nv,)
        Configuration, generalized velocities and accelerations.
    """

    q: Array
    v: Array
    vdot: Array


class PoseState(NamedTuple):
    """Pose of a frame in the world, and the motion of its origin in world axes.

    Parameters
    ----------
    pose : ndarray, shape (4, 4)
        Pose.
    velocity, acceleration : ndarray, shape (6,)
        [angular (rad/s, rad/s²); linear (m/s, m/s²)], the linear acceleration that of the point.
    """

    pose: Array
    velocity: Array
    acceleration: Array


JointReference = Callable[[float], tuple[ArrayLike, ArrayLike, ArrayLike]]
PoseReference = Callable[[float], tuple[ArrayLike, ArrayLike, ArrayLike]]


@final
@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
class Constant:
    """Joint reference that holds one configuration.

    Parameters
    ----------
    model : Model
        The model.
    q : array_like, shape (nq,)
        The configuration.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.control.Constant(arm, [0.1, 0.2])(3.0).v
    array([0., 0.])
    """

    parameters: ClassVar[Mapping[str, str]] = {"q": "_free"}

    def __init__(self, model: Model, q: ArrayLike) -> None:
        model = tree_of(model, Constant)
        self.q = _checked_q(model, q, "q")
        groups = [group for joint in model.joints for group, *_ in joint.parts(0, 0)]
        turns = any(g.rotation is not None and g.rotation.size > 1 for g in groups)
        self._free = None if turns else self.q  # single numbers of quaternions do not change
        self._still = np.zeros(model.nv)

    def __repr__(self) -> str:
        return one_line(self, self.q)

    def __call__(self, t: float) -> JointState:
        """Return (q, 0, 0)."""
        q = self.q if self._free is None else self._free
        return JointState(q, self._still, self._still)


@final
@supports(loops=True, flexible=True, rotors=True)
class JointPath:
    """Minimum-jerk joint trajectory through waypoints, resting at each.

    Between two of them q(t) = q_i ⊕ s d with d = q_{i+1} ⊖ q_i, the constant velocity that leads
    there on the manifold, and s = 10 x³ − 15 x⁴ + 6 x⁵ of the fraction x of time, so that v = ṡ d
    and vdot = s̈ d exactly, quaternion joints included. Before the first and after the last it
    rests. ``path(t)`` returns a `JointState`.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    waypoints : array_like, shape (k, nq)
        Configurations.
    times : sequence of float, shape (k,)
        Times, s, increasing.
    independent : sequence of str, optional
        Names of joints of a system with loops that move so, as many as it has degrees of freedom.
        The others follow: they close the loops, with their exact velocities and accelerations.
        Default: the best ones at the first waypoint.

    Notes
    -----
    **Source:** Flash and Hogan 1985, J. Neuroscience 5 (minimum jerk).

    Examples
    --------
    >>> import phipsi as pp
    >>> path = pp.control.JointPath(pp.examples.planar_arm(1), [[0.0], [1.0]], [0.0, 2.0])
    >>> path(1.0)
    JointState(q=array([0.5]), v=array([0.9375]), vdot=array([0.]))
    """

    def __init__(
        self,
        model: Model,
        waypoints: ArrayLike,
        times: Sequence[float],
        *,
        independent: Sequence[str] | None = None,
    ) -> None:
        mechanism, self.model = mechanism_of(model, JointPath), tree_of(model, JointPath)
        self.waypoints = _checked_q(self.model, waypoints, "waypoints", ndim=2)
        self.times = _checked_times(times, len(self.waypoints))
        self.legs = self.model.difference(self.waypoints[:-1], self.waypoints[1:])
        self._loops = None
        if isinstance(mechanism, System):
            motion, rest = Motion(mechanism), np.zeros((1, mechanism.nv))
            for i, q in enumerate(self.waypoints):
                motion.check_start(q[None], rest, (f"waypoints[{i}]", "v"))
            self._loops = FollowingJoints(mechanism, independent, self.waypoints[0], JointPath)
            grid = np.linspace(self.times[:-1], self.times[1:], _SAMPLES, axis=1).ravel()
            self._loops.trace(grid, self._of_joints)
            self._check_branches()
        elif independent is not None:
            raise InputError(_ALL_INDEPENDENT)

    def __repr__(self) -> str:
        shape, end = self.waypoints.shape, float(self.times[-1])
        return f"<JointPath: {shape[0]} waypoints of {shape[1]} coordinates, to t = {end:g} s>"

    def __call__(self, t: float) -> JointState:
        """Return (q, v, vdot) at time t."""
        state = self._of_joints(t)
        return state if self._loops is None else JointState(*self._loops(t, state))

    def _check_branches(self) -> None:
        """Whether the path arrives at the waypoints, and not at other ways to close the loops."""
        for i, goal in enumerate(self.waypoints):
            found = self(float(self.times[i])).q
            away = np.abs(self.model.difference(found, goal)).max(initial=0.0)
            if away > _ARRIVED:
                raise InputError(
                    f"waypoint {i} cannot be reached: its loops are closed on another branch "
                    f"than that of the path, {away:.3g} (rad or m) apart. Between the two the "
                    "mechanism would pass a singular configuration. Pass waypoints on one "
                    "branch, or further ones in between."
                )

    def _of_joints(self, t: float) -> JointState:
        """Every joint on its own."""
        row, s, rate, acceleration = _minimum_jerk(t, self.times)
        d = row(self.legs)
        q = moved_by(self.model, row(self.waypoints), s * d)
        return JointState(q, rate * d, acceleration * d)


@final
@supports(loops=True, rotors=True)
class FourierPath:
    """Periodic joint trajectory, a Fourier series for every joint (excitation for identification).

    q = center + Σ_k (a_k sin k ω t − b_k cos k ω t) / (k ω), so v = Σ_k (a_k cos k ω t + b_k sin k
    ω t) and vdot follow exactly, and the motion repeats after `period`. ``path(t)`` returns a
    `JointState`; for times (...,), each entry with these axes in front. For joints with q̇ = v
    only.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    center : array_like, shape (nq,)
        Mean configuration, rad or m.
    cosines, sines : array_like, shape (nq, K)
        Coefficients a and b of the velocities, rad/s or m/s.
    period : float
        Period, s.
    independent : sequence of str, optional
        As for `JointPath`: the series of the other joints are only the initial guess for closing
        the loops.

    Notes
    -----
    **Source:** Swevers et al. 1997, IEEE Trans. Robotics 13.

    Examples
    --------
    >>> import phipsi as pp
    >>> path = pp.control.FourierPath(pp.examples.planar_arm(1), [0.5], [[1.0]], [[0.0]], 6.0)
    >>> path(0.0)
    JointState(q=array([0.5]), v=array([1.]), vdot=array([0.]))
    """

    def __init__(
        self,
        model: Model,
        center: ArrayLike,
        cosines: ArrayLike,
        sines: ArrayLike,
        period: float,
        *,
        independent: Sequence[str] | None = None,
    ) -> None:
        mechanism, model = mechanism_of(model, FourierPath), tree_of(model, FourierPath)
        _check_coordinates(model)
        self.center = _checked_q(model, center, "center")
        self.cosines, self.sines = real_array("cosines", cosines), real_array("sines", sines)
        shapes = self.cosines.shape, self.sines.shape
        if shapes[0] != shapes[1] or len(shapes[0]) != 2 or shapes[0][0] != model.nq:
            raise InputError(
                f"cosines and sines have the shapes {shapes[0]} and {shapes[1]}, but must both "
                f"have (nq = {model.nq}, K), K frequencies"
            )
        self.period = checked_time(period, "period")
        self._omega = 2 * np.pi / self.period * np.arange(1, shapes[0][1] + 1)
        self._loops = None
        if isinstance(mechanism, System):
            self._loops = FollowingJoints(
                mechanism, independent, self._of_joints(0.0).q, FourierPath
            )
            count = _SAMPLES * (1 + shapes[0][1])
            self._loops.trace(np.linspace(0, self.period, count), self._of_joints)
        elif independent is not None:
            raise InputError(_ALL_INDEPENDENT)

    def __repr__(self) -> str:
        nq, count = self.cosines.shape
        return f"<FourierPath: {nq} coordinates, {count} frequencies, period {self.period:g} s>"

    @classmethod
    def fit(
        cls,
        model: Model,
        t: ArrayLike,
        q: ArrayLike,
        period: float,
        harmonics: int,
        *,
        independent: Sequence[str] | None = None,
    ) -> FourierPath:
        """The Fourier series closest to measured coordinates, which filters them for velocities.

        Parameters
        ----------
        model : Model
            A tree, or a `System`.
        t, q : array_like, shape (k,) and (k, nq)
            Times, s, and measured coordinates.
        period, harmonics : float, int
            Period, s, and number of frequencies.
        independent : sequence of str, optional
            As for `JointPath`.

        Returns
        -------
        FourierPath
            A path whose v and vdot are the exact derivatives of the fitted coordinates. A warning
            gives the largest distance from the measured ones if it is not small.
        """
        tree = tree_of(model, cls)
        times, values = real_array("t", t), real_array("q", q)
        period, harmonics = checked_time(period, "period"), whole_number("harmonics", harmonics, 0)
        if times.ndim != 1 or values.shape != (len(times), tree.nq):
            raise InputError(
                f"t {times.shape} and q {values.shape} must have the shapes (k,) and (k, nq = "
                f"{tree.nq})"
            )
        if len(times) <= 2 * harmonics + 1:
            raise InputError(
                f"{len(times)} samples cannot determine {2 * harmonics + 1} coefficients"
            )
        center, cosines, sines = fitted_series(tree, times, values, period, harmonics)
        return cls(model, center, cosines, sines, period, independent=independent)

    def __call__(self, t: ArrayLike) -> JointState:
        """Return (q, v, vdot) at the times t."""
        state = self._of_joints(t)
        if self._loops is None:
            return state
        time = as_array(t)
        return JointState(*self._loops(time - self.period * np.floor(time / self.period), state))

    def _of_joints(self, t: ArrayLike) -> JointState:
        """Every joint on its own."""
        w, angle = self._omega, as_array(t)[..., None] * self._omega
        c, s = np.cos(angle), np.sin(angle)
        A, B = self.cosines.T, self.sines.T
        q = self.center + (s / w) @ A - (c / w) @ B
        return JointState(q, c @ A + s @ B, (c * w) @ B - (s * w) @ A)


@final
class ConstantPose:
    """Pose reference that holds one pose, or one position if the task is a position only.

    Parameters
    ----------
    pose : Pose or array_like, shape (4, 4) or (3,)
        The pose or position.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.control.ConstantPose(pp.Pose(translation=(0, 0, 1)))(0.0).pose[:3, 3]
    array([0., 0., 1.])
    """

    parameters: ClassVar[Mapping[str, str]] = {"position": "_position"}

    def __init__(self, pose: Pose | ArrayLike) -> None:
        self.pose = _checked_pose(pose)
        self._position = self.pose[:3, 3]

    def __repr__(self) -> str:
        return one_line(self, position=self.pose[:3, 3])

    def __call__(self, t: float) -> PoseState:
        """Return (pose, 0, 0)."""
        place = np.concatenate([self._position, np.ones(1)]).reshape(4, 1)
        pose = np.concatenate([self.pose[:, :3], place], axis=1)
        return PoseState(pose, np.zeros(6), np.zeros(6))


@final
class CartesianPath:
    """Minimum-jerk straight lines between poses, resting at each.

    p(t) = p_i + s (p_{i+1} − p_i) and R(t) = R_i exp(s w), w the rotation vector of the shortest
    turn (spherical linear interpolation), with s as in `JointPath`. The angular velocity ṡ R_i w is
    along one world axis per leg. ``path(t)`` returns a `PoseState`.

    Parameters
    ----------
    poses : sequence of Pose or array_like, length k
        `Pose`, (4, 4) or positions (3,).
    times : sequence of float, length k
        Times, s, increasing.

    Notes
    -----
    **Source:** Shoemake 1985, SIGGRAPH 19 (slerp).

    Examples
    --------
    >>> import phipsi as pp
    >>> line = pp.control.CartesianPath([(0, 0, 1), (0.2, 0, 1)], [0.0, 1.0])
    >>> line(0.5).velocity
    array([0.   , 0.   , 0.   , 0.375, 0.   , 0.   ])
    """

    def __init__(self, poses: Sequence[Pose | ArrayLike], times: Sequence[float]) -> None:
        some = [_checked_pose(x) for x in as_list("poses", poses, "[(0, 0, 1), (0.2, 0, 1)]")]
        if not some:
            raise InputError("a path needs at least one pose:  poses=[(0, 0, 1), (0.2, 0, 1)]")
        self.poses = np.stack(some)
        self.times = _checked_times(times, len(self.poses))
        R, p = self.poses[:, :3, :3], self.poses[:, :3, 3]
        self._turns = so3_log(np.swapaxes(R[:-1], -1, -2) @ R[1:])
        turns_W = np.einsum("kij,kj->ki", R[:-1], self._turns)
        self._legs = np.concatenate([turns_W, p[1:] - p[:-1]], axis=-1)

    def __repr__(self) -> str:
        return f"<CartesianPath: {len(self.poses)} poses, to t = {float(self.times[-1]):g} s>"

    def __call__(self, t: float) -> PoseState:
        """Return (pose, velocity, acceleration) at time t."""
        row, s, rate, acceleration = _minimum_jerk(t, self.times)
        start, leg = row(self.poses), row(self._legs)
        turn, place = s * row(self._turns), start[:3, 3] + s * leg[3:]
        pose = _turned_pose(start[:3, :3], turn, place)
        return PoseState(pose, rate * leg, acceleration * leg)


_SAMPLES = 33  # of each leg of a path, or of each wave of the highest frequency
_ARRIVED = 1e-6  # rad or m
_ALL_INDEPENDENT = "independent= is for a System; every joint of a tree is independent"


def _check_coordinates(model: Model) -> None:
    """Reject joints whose rates are not the derivatives of their coordinates."""
    for name, joint in zip(model.joint_names, model.joints, strict=True):
        if not joint.is_additive:
            raise InputError(
                f"joint {name!r} is {joint.kind}: a Fourier series of its coordinates is not a "
                f"motion with q̇ = v. Use a JointPath."
            )


Rows = Callable[[Array], Any]


def _minimum_jerk(t: Any, times: Array) -> tuple[Rows, Any, Any, Any]:
    """Which row of an array belongs to the leg, and s, ṡ, s̈ on it.

    At rest before the first and after the last time. A time that is known only when a law runs
    chooses among all legs.
    """
    if isinstance(t, Tracer):

        def row(values: Array) -> Any:
            out: Any = values[0]
            for i in range(1, len(times) - 1):
                out = np.where(t >= times[i], values[i], out)
            return out

    else:
        if not isinstance(t, (int, float, np.floating, np.integer)) and np.ndim(as_floats("t", t)):
            raise InputError(f"a path takes one time t, in s, not {t!r}")
        i = int(np.clip(np.searchsorted(times, t, side="right") - 1, 0, len(times) - 2))

        def row(values: Array) -> Any:
            return values[i]

    span = row(np.diff(times))
    x = np.clip((t - row(times)) / span, 0.0, 1.0)
    s = x**3 * (10 - 15 * x + 6 * x**2)
    rate = 30 * x**2 * (1 - x) ** 2 / span
    return row, s, rate, 60 * x * (1 - x) * (1 - 2 * x) / span**2


def _turned_pose(R: Any, w: Any, p: Any) -> Any:
    """[R exp(w), p; 0, 1] of arrays, or of traced values."""
    square = w @ w
    zero = 0.0 * square
    K = np.stack([
        np.stack([zero, -w[2], w[1]]), np.stack([w[2], zero, -w[0]]), np.stack([-w[1], w[0], zero]),
    ])  # fmt: skip
    turned = R + R @ (sinc(square, ARRAYS) * K + versine(square, ARRAYS) * (K @ K))
    top = np.concatenate([turned, p[:, None]], axis=1)
    return np.concatenate([top, np.array([[0.0, 0.0, 0.0, 1.0]])])


def _checked_q(model: Model, q: ArrayLike, what: str, ndim: int = 1) -> Array:
    values = as_numbers(what, q)
    if values.dtype != np.float64:
        raise InputError(f"{what} holds {values.dtype}, but must be real numbers here")
    if values.ndim != ndim or values.shape[-1] != model.nq:
        wanted = f"({'k, ' * (ndim - 1)}nq = {model.nq})"
        raise InputError(f"{what} has shape {values.shape}, but must have {wanted}")
    if not np.isfinite(values).all():
        place = int(np.argwhere(~np.isfinite(values))[0][-1])
        joint = joint_at(model, model.q_slices, place)
        raise InputError(f"{what} is not finite at joint {joint!r}; it must be")
    return values


def _checked_times(times: Sequence[float], count: int) -> Array:
    t = as_floats("times", times)
    if t.shape != (count,) or count < 2:
        raise InputError(
            f"{count} waypoints and times of shape {t.shape}: pass one time for each waypoint, "
            "and at least two waypoints"
        )
    if not np.isfinite(t).all() or (np.diff(t) <= 0).any():
        raise InputError(f"times={t.tolist()} must be finite and increasing")
    return t


def _checked_pose(pose: Pose | ArrayLike) -> Array:
    if isinstance(pose, Pose):
        return pose.matrix
    values = real_array("pose", pose)
    if values.shape == (3,):
        return Pose(translation=values).matrix
    if values.shape != (4, 4):
        raise InputError(
            f"a pose has shape {values.shape}; it must be a pp.Pose, a matrix (4, 4) or a position "
            "(3,)"
        )
    return Pose.from_matrix(values).matrix


# ---- what functions of users return --------------------------------------------------------------


def joint_state_at(model: Model, reference: JointReference, t: Any) -> Any:
    """(q, v, vdot) of a reference at a time: right sizes, finite; what a law traces is as it is."""
    if isinstance(reference, Constant | JointPath | FourierPath):
        return reference(t)
    given = _three(reference, t, "(q, v, vdot)", "q, 0 * v, 0 * v")
    sizes = {"q": model.nq, "v": model.nv, "vdot": model.nv}
    return tuple(
        x if isinstance(x, Tracer) else _part(reference, name, x, (size,))
        for (name, size), x in zip(sizes.items(), given, strict=True)
    )


def pose_state_at(reference: PoseReference, t: Any) -> Any:
    """(pose, velocity, acceleration) of a reference at a time, checked likewise."""
    if isinstance(reference, ConstantPose | CartesianPath):
        return reference(t)
    given = _three(reference, t, "(pose, velocity, acceleration)", "pose, np.zeros(6), np.zeros(6)")
    rest = [
        x if contains_tracer(x) else _part(reference, name, x, (6,))
        for name, x in zip(("velocity", "acceleration"), given[1:], strict=True)
    ]
    pose = given[0].matrix if isinstance(given[0], Pose) else given[0]
    return (pose if contains_tracer(pose) else _pose_of(reference, pose), *rest)


def _pose_of(reference: PoseReference, given: Array) -> Array:
    """The pose (..., 4, 4) that a reference returned: a rotation, and the last row of a pose."""
    pose = _part(reference, "pose", given, (4, 4))
    off = pose[..., :3, :3] @ np.swapaxes(pose[..., :3, :3], -1, -2) - np.eye(3)
    if np.abs(off).max(initial=0.0) > _NOT_TURNED:
        raise InputError(
            f"reference {name_of(reference)!r} returned a pose whose rotation R is not "
            f"orthogonal: R R* differs from I by {np.abs(off).max():.2g}. Make it with pp.Pose:  "
            "pp.Pose(R, p).matrix"
        )
    if np.abs(pose[..., 3, :] - (0, 0, 0, 1)).max(initial=0.0) > _NOT_TURNED:
        raise InputError(
            f"reference {name_of(reference)!r} returned a matrix that is not a pose: the last "
            "row of [[R, p], [0, 1]] is (0, 0, 0, 1). Make it with pp.Pose:  pp.Pose(R, "
            "p).matrix"
        )
    return pose


_NOT_TURNED = 1e-6  # how far a matrix may be from a rotation, and its last row from (0, 0, 0, 1)


def _three(reference: Any, t: Any, what: str, example: str) -> Any:
    given = reference(t)
    if not isinstance(given, tuple | list) or len(given) != 3:
        raise InputError(
            f"reference {name_of(reference)!r} must return {what}, not {given!r}. For example:\n"
            f"    return {example}"
        )
    return given


def _part(reference: Any, name: str, value: Array, shape: tuple[int, ...]) -> Array:
    array = real_array(f"{name} of reference {name_of(reference)!r}", value)
    if array.shape[-len(shape) :] != shape:
        raise InputError(
            f"{name} of reference {name_of(reference)!r} has shape {array.shape}, but must have "
            f"{shape}"
        )
    return array
