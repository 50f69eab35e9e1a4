"""Elements between frames: bushings, torsion springs; and drag of the air at points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.model import Model
from phipsi.core.spatial import ARRAYS, cot_gap, skew, so3_log
from phipsi.errors import InputError
from phipsi.simulation.forces.body_forces import (
    BodyFrame,
    Point,
    checked_over_time,
    checked_vector,
    ends_of,
    over_time,
    place_that_moves,
    with_world,
)
from phipsi.simulation.forces.force import Array, Force, PrintedForce, State


class _FrameMotion(NamedTuple):
    """A frame in the world: rotation, origin, angular and linear velocity, world axes."""

    R: Array
    p: Array
    w: Array
    u: Array
    host: Array


def _motion(state: State, frame: BodyFrame) -> _FrameMotion:
    poses, velocities = with_world(state)
    X, V = poses[..., frame.body, :, :], velocities[..., frame.body, :]
    host = X[..., :3, :3]
    w, u = V[..., :3], V[..., 3:] - _times(skew(frame.offset), V[..., :3])
    return _FrameMotion(
        host @ frame.rotation, X[..., :3, 3] + _times(host, frame.offset), _times(host, w),
        _times(host, u), host,
    )  # fmt: skip


def _times(R: Any, x: Any) -> Any:
    """R x."""
    return (R @ x[..., None])[..., 0]


def _back(R: Any, x: Any) -> Any:
    """R* x."""
    return (x[..., None, :] @ R)[..., 0, :]


def _loads(state: State, *acting: tuple[BodyFrame, _FrameMotion, Any, Any]) -> Array:
    """Forces on bodies of moments and forces (world axes) at the origins of frames."""
    size = state.model.n_bodies
    out: Any = None
    for frame, motion, moment, force in acting:
        if frame.body < 0:
            continue
        f = _back(motion.host, force)
        m = _back(motion.host, moment) + _times(skew(frame.offset), f)
        if out is None:
            out = np.zeros_like(f, shape=(*f.shape[:-1], size, 6))
        out[..., frame.body, :] += np.concatenate([m, f], axis=-1)
    return out


def _numbers(values: Any, size: int, what: str, who: str) -> Array:
    """One number for all directions, or one for each; not negative."""
    given = np.asarray(values)
    full = np.broadcast_to(given, (size,)) if given.ndim == 0 else given
    out = checked_vector(full, size, what, who)
    if (out < 0).any():
        raise InputError(f"{who}: {what} must not be negative, not {values!r}.")
    return out


@final
class Bushing(PrintedForce):
    """Elastic mount between two frames: springs and dampers in six directions.

    With R = R_a* R_b, θ = log R and d the origin of b, both in the axes of a, it stores
    ½ θ* k_r θ + ½ d* k_t d and gives its exact gradient: the force −k_t d and the moment
    −dexp⁻¹(θ)* k_r θ on b, the opposite on a at the same place. Dampers act on the relative motion
    in the axes of a. At half a turn the moment jumps: θ takes the short way.

    Parameters
    ----------
    a, b : str or tuple
        Frames, which coincide where it is relaxed: a body, a frame, "world", or (name, offset in
        m).
    stiffness, damping : array_like, shape (6,) or ()
        [Three rotations (N·m/rad, N·m·s/rad); three translations (N/m, N·s/m)] in the axes of a, or
        one number for all. Default damping: 0.

    Examples
    --------
    >>> import phipsi as pp
    >>> mount = pp.forces.Bushing("world", "tip", [1e3, 1e3, 1e3, 1e5, 1e5, 1e5], 10.0)
    >>> mount.b
    'tip'
    """

    __slots__ = ("_c", "_ends", "_k", "a", "b", "damping", "stiffness")
    parameters: ClassVar[Mapping[str, str]] = {"stiffness": "_k", "damping": "_c"}
    not_negative: ClassVar[tuple[str, ...]] = ("stiffness", "damping")

    def __init__(self, a: Point, b: Point, stiffness: ArrayLike, damping: ArrayLike = 0.0) -> None:
        self.a, self.b, self.stiffness, self.damping = a, b, stiffness, damping

    def bind(self, model: Model) -> Force:
        """Look up the frames."""
        who, out = repr(self), copy(self)
        out._ends = ends_of(model, self, "nothing can change")
        out._k = _numbers(self.stiffness, 6, "stiffness", who)
        out._c = _numbers(self.damping, 6, "damping", who)
        return out

    def _strain(self, a: _FrameMotion, b: _FrameMotion) -> tuple[Array, Array]:
        return so3_log(np.swapaxes(a.R, -1, -2) @ b.R), _back(a.R, b.p - a.p)

    def body_forces(self, state: State) -> Array:
        """Equal and opposite forces at the origin of b."""
        a, b = (_motion(state, end) for end in self._ends)
        angle, gap = self._strain(a, b)
        arm = b.p - a.p
        turning = _back(a.R, b.w - a.w)
        moving = _back(a.R, b.u - a.u + _times(skew(arm), a.w))
        pull = self._k[:3] * angle
        # dexp⁻¹(θ)* in the axes of a: 1 + θ×/2 + g θ×θ×
        once = np.cross(angle, pull)
        bend = cot_gap((angle * angle).sum(-1), ARRAYS)[..., None]
        elastic = pull + 0.5 * once + bend * np.cross(angle, once)
        moment = _times(a.R, -elastic - self._c[:3] * turning)
        force = _times(a.R, -self._k[3:] * gap - self._c[3:] * moving)
        on_a = -moment - np.cross(arm, force)
        return _loads(state, (self._ends[1], b, moment, force), (self._ends[0], a, on_a, -force))

    def potential_energy(self, state: State) -> Array:
        """½ θ* k_r θ + ½ d* k_t d."""
        angle, gap = self._strain(*(_motion(state, end) for end in self._ends))
        return 0.5 * ((angle * angle) @ self._k[:3] + (gap * gap) @ self._k[3:])


@final
class TorsionSpring(PrintedForce):
    """Spring and damper about one axis between two frames.

    The angle is that of b's x axis about a's z axis, from a's x axis, between −π and π. It stores
    ½ k (angle − rest)² and gives the exact gradient, also where the z axes are not parallel. Full
    turns do not count: use `JointSpring` at a joint that winds up. Where b's x axis is along a's z
    axis the angle has no value, and near there the moment is large.

    Parameters
    ----------
    a, b : str or tuple
        Frames: a body, a frame, "world", or (name, offset in m).
    stiffness : float
        Stiffness k, N·m/rad.
    rest : float, optional
        Angle at which it is relaxed, rad.
    damping : float, optional
        Damping, N·m·s/rad.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.forces.TorsionSpring("world", "link1", 5.0, rest=0.1)
    TorsionSpring('world', 'link1', stiffness=5, rest=0.1, damping=0)
    """

    __slots__ = ("_c", "_ends", "_k", "_rest", "a", "b", "damping", "rest", "stiffness")
    parameters: ClassVar[Mapping[str, str]] = {"stiffness": "_k", "rest": "_rest", "damping": "_c"}
    not_negative: ClassVar[tuple[str, ...]] = ("stiffness", "damping")

    def __init__(
        self, a: Point, b: Point, stiffness: float, rest: float = 0.0, damping: float = 0.0
    ) -> None:
        self.a, self.b, self.stiffness, self.rest, self.damping = a, b, stiffness, rest, damping

    def bind(self, model: Model) -> Force:
        """Look up the frames."""
        who, out = repr(self), copy(self)
        out._ends = ends_of(model, self, "nothing can change")
        out._k = _numbers(self.stiffness, 1, "stiffness", who)[0]
        out._c = _numbers(self.damping, 1, "damping", who)[0]
        out._rest = checked_vector([self.rest], 1, "rest", who)[0]
        return out

    def _turn(self, a: _FrameMotion, b: _FrameMotion) -> tuple[Array, Array]:
        """Angle − rest, and the gradient of the angle by rotations of b, axes of a."""
        n = _back(a.R, b.R[..., 0])
        x, y, z = n[..., 0], n[..., 1], n[..., 2]
        flat = x * x + y * y
        lean = -z / np.where(flat > 0, flat, 1.0)
        gradient = np.stack([lean * x, lean * y, np.ones_like(x)], axis=-1)
        away = np.arctan2(y, x) - self._rest
        return away - 2 * np.pi * np.rint(away / (2 * np.pi)), gradient

    def body_forces(self, state: State) -> Array:
        """Equal and opposite moments."""
        a, b = (_motion(state, end) for end in self._ends)
        away, gradient = self._turn(a, b)
        rate = (gradient * _back(a.R, b.w - a.w)).sum(-1)
        moment = _times(a.R, (-self._k * away - self._c * rate)[..., None] * gradient)
        none = np.zeros_like(moment)
        return _loads(state, (self._ends[1], b, moment, none), (self._ends[0], a, -moment, none))

    def potential_energy(self, state: State) -> Array:
        """½ k (angle − rest)²."""
        away = self._turn(*(_motion(state, end) for end in self._ends))[0]
        return 0.5 * self._k * away * away


@final
class WindDrag(PrintedForce):
    """Aerodynamic drag at a point of a body: −½ ρ c A |u| u, u its velocity relative to the wind.

    Parameters
    ----------
    point : str or tuple
        A body, a frame, or (name, offset in m): the centre of pressure.
    area : float
        Area A, m².
    coefficient : float, optional
        Drag coefficient c.
    density : float, optional
        Density of the air ρ, kg/m³.
    wind : array_like, shape (3,), or callable, optional
        Wind, m/s in world axes: three numbers, or a function of t (s) that returns them.

    Examples
    --------
    >>> import phipsi as pp
    >>> breeze = pp.forces.WindDrag("tip", area=0.2, wind=(5.0, 0.0, 0.0))
    >>> arm = pp.examples.planar_arm(2)
    >>> blown = pp.simulate(arm, [-1.57, 0.0], [0.0, 0.0], 0.5, forces=[breeze])
    >>> bool(blown.q[-1, 0] > -1.56)
    True
    """

    __slots__ = ("_factor", "_frame", "_wind", "area", "coefficient", "density", "point", "wind")
    parameters: ClassVar[Mapping[str, str]] = {"drag": "_factor", "wind": "_wind"}
    not_negative: ClassVar[tuple[str, ...]] = ("drag",)
    unnamed = 1

    def __init__(
        self,
        point: Point,
        area: float,
        coefficient: float = 1.0,
        density: float = 1.225,
        wind: ArrayLike | Callable[[float], ArrayLike] = (0.0, 0.0, 0.0),
    ) -> None:
        self.point, self.area, self.wind = point, area, wind
        self.coefficient, self.density = coefficient, density

    def bind(self, model: Model) -> Force:
        """Look up the point."""
        who, out = repr(self), copy(self)
        out._frame = place_that_moves(model, self.point, who, "the wind")
        names = ("area", "coefficient", "density")
        area, c, density = (_numbers(getattr(self, n), 1, n, who)[0] for n in names)
        out._factor = np.array(0.5 * density * c * area)
        out._wind = checked_over_time(self.wind, 3, "wind", who)
        return out

    def _air(self, t: Any) -> Any:
        if self._wind is not None:
            return self._wind
        return over_time(self.wind, t, 3, "the wind", self)

    def body_forces(self, state: State) -> Array:
        """−½ ρ c A |u| u at the point."""
        at = _motion(state, self._frame)
        u = at.u - self._air(state.t)
        speed = np.sqrt((u * u).sum(-1))
        force = (-self._factor * speed)[..., None] * u
        return _loads(state, (self._frame, at, np.zeros_like(force), force))
