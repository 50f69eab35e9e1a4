"""Elements that act on bodies: springs between points, gravity fields, external forces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.arrays import Tracer, as_array
from phipsi.core.model import Model, floats_of
from phipsi.core.spatial import skew
from phipsi.errors import InputError, PhipsiError, is_real, one_of
from phipsi.laws import JointRows
from phipsi.simulation.forces.force import Array, Force, PrintedForce, State
from phipsi.simulation.runs.user_functions import check_signature, name_of
from phipsi.support import one_line

Point = Any


def checked_vector(values: Any, size: int, what: str, who: object) -> Array:
    """An array of so many finite numbers; `who` is printed where it is not."""
    out = np.array(floats_of(values))
    if out.shape != (size,) or not np.isfinite(out).all():
        raise InputError(f"{who}: {what} must be {size} finite numbers, not {values!r}.")
    return out


def checked_over_time(given: Any, size: int, what: str, who: str) -> Array | None:
    """So many finite numbers; None for a function of time, which returns them."""
    if not callable(given):
        return checked_vector(given, size, what, who)
    check_signature(given, f"{who}: {name_of(given)!r}", "t")
    return None


def over_time(function: Any, t: Any, size: int, what: str, who: object) -> Array:
    """What a function of time returns at a time, or at each of several: (..., size)."""
    if np.ndim(t):
        found = [over_time(function, x, size, what, who) for x in np.ravel(t)]
        return np.stack(found).reshape(*np.shape(t), size)
    if not isinstance(t, Tracer):
        return checked_vector(function(float(t)), size, f"{what} at t = {float(t):.6g} s", who)
    found = as_array(function(t))
    if found.shape != (size,):
        raise InputError(f"{who}: {what} must be {size} numbers, not of shape {found.shape}.")
    return found


def _number(value: Any, what: str, who: str) -> float:
    if not is_real(value) or not 0 <= value < np.inf:
        raise InputError(f"{who}: {what} must be a finite number of at least 0, not {value!r}.")
    return float(value)


class BodyFrame(NamedTuple):
    """A frame fixed in a body, or in the world (−1): its axes and its origin there."""

    body: int
    rotation: Array
    offset: Array


def place_of_point(model: Model, point: Point, who: str) -> BodyFrame:
    """Where a point is, with the axes of its frame."""
    try:
        body, pose = model.resolve_point(point)
    except PhipsiError as error:
        raise InputError(f"{who}: {error}") from error
    return BodyFrame(body, pose.rotation, pose.translation)


def place_that_moves(model: Model, point: Point, who: str, what: str) -> BodyFrame:
    """The same of a point that is not fixed in the world; `what` would act there."""
    place = place_of_point(model, point, who)
    if place.body < 0:
        raise InputError(f"{who}: the point is fixed in the world, where {what} has no effect.")
    return place


_WORLD, _STILL = np.eye(4)[None], np.zeros((1, 6))


class _LoadAccumulator:
    """Adds forces given per point up on the bodies; the world's share is dropped."""

    def __init__(self, bodies: Array, n: int) -> None:
        order = np.argsort(bodies, kind="stable")
        self.order = order[bodies[order] >= 0]
        self.bodies, self.starts = np.unique(bodies[self.order], return_index=True)
        self.n = n

    def __call__(self, forces: Array) -> Array:
        out = np.zeros_like(forces, shape=(*forces.shape[:-2], self.n, 6))
        if len(self.bodies):
            sums = np.add.reduceat(forces[..., self.order, :], self.starts, axis=-2)
            out[..., self.bodies, :] = sums
        return out


def with_world(state: State) -> tuple[Array, Array]:
    """Poses and velocities with one more row for the world, reached by the index −1."""
    X, V = state.poses, state.velocities
    world, still = _WORLD, _STILL
    if X.ndim > 3:
        world = np.broadcast_to(world, (*X.shape[:-3], 1, 4, 4))
        still = np.broadcast_to(still, (*V.shape[:-2], 1, 6))
    return np.concatenate([X, world], axis=-3), np.concatenate([V, still], axis=-2)


def ends_of(model: Model, element: Any, otherwise: str) -> tuple[BodyFrame, BodyFrame]:
    """Where the two points of an element are, which must be on two bodies."""
    a, b = (place_of_point(model, point, repr(element)) for point in (element.a, element.b))
    if a.body == b.body:
        raise InputError(
            f"{element!r}: both points are on the same body, so {otherwise}. Did you mean another "
            "body or frame?"
        )
    return a, b


@final
class PointSpring(PrintedForce):
    """Spring and damper along the line between two points.

    The pull along the line is k (l − l0) + c l̇, with l the distance; it stores ½ k (l − l0)². At
    l = 0 the line has no direction and nothing acts. Many of them cost one array computation.

    Parameters
    ----------
    a, b : str or tuple
        Points: a body, a frame, "world", or (name, offset in m in its axes).
    stiffness : float
        Stiffness k, N/m.
    rest_length : float, optional
        Rest length l0, m.
    damping : float, optional
        Damping c, N·s/m.

    Examples
    --------
    >>> import phipsi as pp
    >>> spring = pp.forces.PointSpring("tip", ("world", (0, 3, 0)), stiffness=50, rest_length=1)
    >>> held = pp.simulate(pp.examples.planar_arm(2), [0, 0], [0, 0], 0.5, forces=[spring])
    >>> bool(abs(held.energy - held.energy[0]).max() < 1e-6)
    True
    """

    __slots__ = ("a", "b", "stiffness", "rest_length", "damping", "_row")

    def __init__(
        self,
        a: Point,
        b: Point,
        stiffness: float,
        rest_length: float = 0.0,
        damping: float = 0.0,
    ) -> None:
        self.a, self.b = a, b
        self.stiffness, self.rest_length, self.damping = stiffness, rest_length, damping

    def bind(self, model: Model) -> Force:
        """Look up the points."""
        who, out = repr(self), copy(self)
        names = ("stiffness", "rest_length", "damping")
        numbers = [_number(getattr(self, name), name, who) for name in names]
        ends = ends_of(model, self, "the spring can never change its length")
        out._row = (model.n_bodies, ends, numbers)
        return out

    @classmethod
    def merge(cls, elements: Sequence[PointSpring]) -> Sequence[Force]:
        """All springs as one element on arrays."""
        return [PointSprings([x._row for x in elements])]


@final
class Rope(PrintedForce):
    """A rope between two points: it pulls when taut, and never pushes.

    It is taut where the distance l of its ends reaches its `length` L. With a finite stiffness it
    pulls with max(0, k (l − L) + c l̇) beyond L, a force in all integrators, and stores
    ½ k (l − L)². By default it does not stretch: 0 ≤ p ⊥ L − l ≥ 0, and its ends rebound with
    `restitution` times their speed when it goes taut, where that adds no energy. Steps of
    ``integrator="time_stepping"`` solve for the impulses p of ropes together with those of
    contacts; "dopri" and "radau" locate when a rope goes taut and slack.

    Parameters
    ----------
    a, b : str or tuple
        Points: a body, a frame, "world", or (name, offset in m in its axes).
    length : float
        Length L, m.
    stiffness : float, optional
        Stiffness k, N/m. Default: infinite.
    damping : float, optional
        Damping c of a rope that stretches, N·s/m.
    restitution : float, optional
        Coefficient of restitution of a rope that does not stretch, 0 to 1.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> builder = pp.ModelBuilder()
    >>> solid = pp.SpatialInertia.sphere(0.05, mass=2.0)
    >>> body = builder.add_body("ball", joint=pp.joints.Free(), inertia=solid)
    >>> rope = pp.forces.Rope("ball", "world", 1.0)
    >>> sim = pp.Simulator(builder.build(), [rope], dt=1e-3, integrator="time_stepping")
    >>> run = sim.rollout(sim.initial_state(), steps=600, record=("q", "rope.impulses"))
    >>> run.q[-1, 6].round(9), (run["rope.impulses"][-1] / 1e-3).round(6)    # m, N: its weight
    (np.float64(-1.0), array([19.62]))
    """

    __slots__ = ("a", "b", "length", "stiffness", "damping", "restitution", "_row")

    def __init__(
        self,
        a: Point,
        b: Point,
        length: float,
        stiffness: float = np.inf,
        damping: float = 0.0,
        *,
        restitution: float = 0.0,
    ) -> None:
        self.a, self.b, self.length = a, b, length
        self.stiffness, self.damping, self.restitution = stiffness, damping, restitution

    def bind(self, model: Model) -> Force:
        """Look up the points."""
        who, rigid = repr(self), np.ndim(self.stiffness) == 0 and self.stiffness == np.inf
        e = _number(self.restitution, "restitution", who)
        if e > 1:
            raise InputError(f"{who}: restitution above 1 would create energy; it is at most 1.")
        if e and not rigid:
            raise InputError(
                f"{who}: restitution= applies only to ropes that do not stretch "
                "(stiffness=inf). For a rope with a finite stiffness use damping=."
            )
        out = copy(self)
        numbers = (
            0.0 if rigid else _number(self.stiffness, "stiffness", who),
            _number(self.length, "length", who),
            _number(self.damping, "damping", who),
        )
        if not numbers[1] > 0:
            raise InputError(f"{who}: length must be positive, in m.")
        if rigid and numbers[2]:
            raise InputError(
                f"{who}: damping= applies only to ropes with a finite stiffness=. For a rope that "
                "does not stretch use restitution=."
            )
        ends = ends_of(model, self, "the rope can never go taut")
        out._row = (model.n_bodies, ends, numbers)
        return out

    @classmethod
    def merge(cls, elements: Sequence[Rope]) -> Sequence[Force]:
        """Ropes that stretch as one element on arrays, and those that do not as another."""
        rows = [(x._row, x.stiffness == np.inf) for x in elements]
        firm, soft = ([x for x, rigid in rows if rigid is kind] for kind in (True, False))
        found: list[Force] = [PointSprings(soft, slack=True)] if soft else []
        return [*found, *([RigidRopes(firm, elements)] if firm else [])]


@final
class RigidRopes(Force):
    """Ropes that do not stretch, as arrays."""

    parameters: ClassVar[Mapping[str, str]] = {"length": "lengths"}
    not_negative: ClassVar[tuple[str, ...]] = ("length",)
    name: ClassVar[str] = "rope"
    kind: ClassVar[str] = "Rope"

    def __init__(self, rows: list[Any], elements: Sequence[Rope]) -> None:
        self.bodies = np.array([[end.body for end in row[1]] for row in rows])
        self.offsets = np.array([[end.offset for end in row[1]] for row in rows])
        self.lengths = np.array([row[2][1] for row in rows])
        self._moves = self.bodies >= 0
        rigid = [x for x in elements if x.stiffness == np.inf]
        self._jerks = tuple(float(x.restitution) for x in rigid)
        self._shown = repr(next(x for x in elements if x.stiffness == np.inf))

    def __repr__(self) -> str:
        return self._shown

    def pairs(self) -> list[list[tuple[int, Array]]]:
        """Body and offset of both ends of every rope."""
        both = zip(self.bodies.tolist(), self.offsets, strict=True)
        return [list(zip(bodies, offsets, strict=True)) for bodies, offsets in both]

    @property
    def has_rows(self) -> bool:
        """They have nothing else."""
        return True

    def joint_rows(self, state: State) -> JointRows:
        """Slacks L − l, and how they change with the motions of the bodies."""
        X = with_world(state)[0][self.bodies]
        arms = (X[..., :3, :3] @ self.offsets[..., None])[..., 0]
        ends = arms + X[..., :3, 3]
        gap = ends[:, 1] - ends[:, 0]
        length = np.sqrt(np.maximum((gap * gap).sum(-1), 1e-300))
        unit = gap / length[:, None]
        pulls = []
        for side, sign in ((0, 1.0), (1, -1.0)):
            toward = unit * np.where(self._moves[:, side], sign, 0.0)[:, None]
            pulls.append(np.concatenate([np.cross(arms[:, side], toward), toward], axis=1))
        ropes = tuple((int(a), int(b)) for a, b in self.bodies)
        slacks, both = self.lengths - length, np.stack(pulls, axis=1)
        return JointRows(ropes=ropes, slacks=slacks, pulls=both, jerks=self._jerks)


@final
class PointSprings(Force):
    """Springs between points, as arrays: first all ends a, then all ends b.

    With `slack` they are ropes, which do not push and only act beyond their length.
    """

    parameters: ClassVar[Mapping[str, str]] = {
        "stiffness": "k", "rest_length": "rest", "damping": "c",
    }  # fmt: skip
    not_negative: ClassVar[tuple[str, ...]] = ("stiffness", "rest_length", "damping")
    name: ClassVar[str] = "point_spring"

    def __init__(self, rows: list[Any], *, slack: bool = False) -> None:
        n, self.slack = rows[0][0], slack
        if slack:
            self.name = "rope"  # type: ignore[misc]
        ends = [row[1][k] for k in (0, 1) for row in rows]
        self.bodies = np.array([end.body for end in ends])
        self.offsets = np.array([end.offset for end in ends])
        self.arms = skew(self.offsets)  # offset × f as a matrix product; np.cross is slow
        self.k, self.rest, self.c = np.array([row[2] for row in rows]).T
        self.sum = _LoadAccumulator(self.bodies, n)

    def __repr__(self) -> str:
        return f"{self.kind} (all {len(self.k)})"

    @property
    def kind(self) -> str:
        """What they are, as users call it."""
        return "Rope" if self.slack else "PointSpring"

    def pairs(self) -> list[list[tuple[int, Array]]]:
        """Body and offset of both ends of every spring."""
        ends = list(zip(self.bodies.tolist(), self.offsets, strict=True))
        return [[ends[i], ends[i + len(self.k)]] for i in range(len(self.k))]

    def _line(self, X: Array) -> tuple[Array, Array, Array]:
        R, p = X[..., :3, :3], X[..., :3, 3]
        ends = p + (R @ self.offsets[:, :, None])[..., 0]
        m = len(self.k)
        gap = ends[..., m:, :] - ends[..., :m, :]
        length = np.sqrt((gap * gap).sum(-1))
        return R, gap, length

    def body_forces(self, state: State) -> Array:
        """Equal and opposite pulls at the two ends."""
        poses, velocities = with_world(state)
        X, V = poses[..., self.bodies, :, :], velocities[..., self.bodies, :]
        R, gap, length = self._line(X)
        apart = length > 0
        inverse = np.where(apart, 1 / np.where(apart, length, 1.0), 0.0)
        unit = gap * inverse[..., None]
        local = V[..., 3:, None] - self.arms @ V[..., :3, None]
        speed = (R @ local)[..., 0]
        m = len(self.k)
        rate = ((speed[..., m:, :] - speed[..., :m, :]) * unit).sum(-1)
        size = self.k * (length - self.rest) + self.c * rate
        if self.slack:
            size = np.where(length > self.rest, np.maximum(size, 0.0), 0.0)
        pull = size[..., None] * unit
        world = np.concatenate([pull, -pull], axis=-2)
        force = (world[..., None, :] @ R)[..., 0, :]
        moment = (self.arms @ force[..., None])[..., 0]
        return self.sum(np.concatenate([moment, force], axis=-1))

    def potential_energy(self, state: State) -> Array:
        """½ k (l − l0)²."""
        X = with_world(state)[0][..., self.bodies, :, :]
        stretch = self._line(X)[2] - self.rest
        if self.slack:
            stretch = np.maximum(stretch, 0.0)
        return 0.5 * (stretch * stretch) @ self.k


@final
class GravityField(Force):
    """Gravity that depends on the position: every body is pulled at its centre of mass.

    The force is m g(p) with p the centre of mass in the world. The variation of the field across
    one body (the gravity-gradient moment) is not included; its variation between bodies is. Uniform
    gravity belongs in the model; this field acts in addition to it, so it is mostly used with
    ``model.with_gravity((0, 0, 0))``.

    Parameters
    ----------
    field : callable
        Positions (..., n, 3) in m → accelerations (..., n, 3) in m/s², world axes.
    potential : callable, optional
        Positions → energy per mass (..., n) in J/kg, whose negative gradient the field is. Without
        it the energy of the trajectory does not contain the field's.

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> b = pp.ModelBuilder(gravity=(0, 0, 0))
    >>> ball = pp.SpatialInertia(1, moment_about_com_B=1)
    >>> _ = b.add_body("moon", joint=pp.joints.Free(), inertia=ball)
    >>> field = pp.forces.GravityField.inverse_square(mu=1.0)
    >>> q0, v0 = [1, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 1, 0]
    >>> orbit = pp.simulate(b.build(), q0, v0, 2 * np.pi, forces=[field])
    >>> bool(abs(orbit.q[-1] - q0).max() < 1e-7)
    True
    """

    __slots__ = ("field", "potential", "_arms", "_com", "_heavy", "_mass", "_moving")

    def __init__(
        self,
        field: Callable[[Array], Array],
        potential: Callable[[Array], Array] | None = None,
    ) -> None:
        if not callable(field) or not (potential is None or callable(potential)):
            raise InputError(
                "GravityField takes functions of positions (..., n, 3), for example\n"
                "    pp.forces.GravityField(lambda p: -1e-6 * p, lambda p: 5e-7 * (p * p).sum(-1))"
            )
        for function in (field, potential):
            if function is not None:
                check_signature(function, f"GravityField: {name_of(function)!r}", "p")
        self.field, self.potential = field, potential

    def __repr__(self) -> str:
        return one_line(self, self.field, self.potential)

    @classmethod
    def inverse_square(cls, mu: float, center: ArrayLike = (0, 0, 0)) -> GravityField:
        """Field −mu r/|r|³ of a point or sphere at `center` (m); mu = G·mass in m³/s²."""
        who = f"GravityField.inverse_square({mu!r})"
        strength, origin = _number(mu, "mu", who), checked_vector(center, 3, "center", who)

        def field(p: Array) -> Array:
            r = p - origin
            return -strength * r / ((r * r).sum(-1) ** 1.5)[..., None]

        def potential(p: Array) -> Array:
            r = p - origin
            return -strength / np.sqrt((r * r).sum(-1))

        return cls(field, potential)

    def bind(self, model: Model) -> Force:
        """Look up masses and mass centres."""
        if model.is_flexible:
            names = [n for n, modes in zip(model.body_names, model.modes, strict=True) if modes]
            raise InputError(
                f"GravityField does not support flexible bodies, such as {names[0]!r}: its "
                "force acts at centres of mass, and modes would have no gravity. Use "
                "uniform gravity:\n"
                "    builder = pp.ModelBuilder(gravity=(0, 0, -9.81))\n"
                "To ignore the deformation:  model.with_rigid_bodies()"
            )
        out = copy(self)
        masses = np.array([x.mass for x in model.inertias])
        out._moving = np.flatnonzero(masses > 0)
        out._mass = masses[out._moving]
        out._com = np.array([model.inertias[i].com_B for i in out._moving]).reshape(-1, 3)
        out._arms, out._heavy = skew(out._com), None
        return out

    def _of_trajectory(self, state: State) -> GravityField:
        """The element with the masses that a trajectory has, on all bodies; the same if none."""
        if state.own_masses is None:
            return self
        mass, first = state.own_masses
        out = copy(self)
        out._moving, out._mass = np.arange(state.model.n_bodies), mass
        out._com = first / np.where(mass > 0, mass, 1.0)[:, None]
        out._arms = skew(out._com)
        if 0 < len(self._moving) < state.model.n_bodies:
            out._heavy = int(self._moving[np.argmax(self._mass)])
        return out

    def _centres(self, state: State) -> tuple[Array, Array]:
        X = state.poses[..., self._moving, :, :]
        R = X[..., :3, :3]
        p = X[..., :3, 3] + (R @ self._com[:, :, None])[..., 0]
        if self._heavy is not None:  # the field may have no value where a body without mass is
            p = np.where(self._mass[:, None] > 0, p, p[..., self._heavy, None, :])
        return R, p

    def body_forces(self, state: State) -> Array:
        """M g at the mass centres."""
        return self._of_trajectory(state)._body_forces(state)

    def _body_forces(self, state: State) -> Array:
        R, p = self._centres(state)
        g = as_array(self.field(p))
        if g.shape != p.shape:
            raise InputError(
                f"GravityField: the field returned shape {g.shape} for positions of shape "
                f"{p.shape}; it must return one acceleration per position."
            )
        force = ((self._mass[:, None] * g)[..., None, :] @ R)[..., 0, :]
        out = np.zeros_like(p, shape=(*p.shape[:-2], state.model.n_bodies, 6))
        out[..., self._moving, :3] = (self._arms @ force[..., None])[..., 0]
        out[..., self._moving, 3:] = force
        return out

    def potential_energy(self, state: State) -> Array | float:
        """Σ m U(p), if there is a potential."""
        if self.potential is None:
            return 0.0
        own = self._of_trajectory(state)
        return as_array(self.potential(own._centres(state)[1])) @ own._mass


@final
class Wrench(PrintedForce):
    """External force on a body, at one of its points: [moment (N·m), force (N)].

    Its energy is not counted, not even if it is constant.

    Parameters
    ----------
    point : str or tuple
        A body, a frame, or (name, offset in m).
    wrench : array_like, shape (6,), or callable
        Six numbers, or a function of t (s) that returns them.
    axes : {"world", "body"}, optional
        World axes, or those of the body or frame named.

    Examples
    --------
    >>> import phipsi as pp
    >>> push = pp.forces.Wrench("tip", [0, 0, 0, 0, 9.81, 0])
    >>> pushed = pp.simulate(pp.examples.planar_arm(1), [0.0], [0.0], 1.0, forces=[push])
    >>> bool(pushed.q[-1, 0] > 1)
    True
    """

    parameters: ClassVar[Mapping[str, str]] = {"wrench": "_constant"}
    __slots__ = ("point", "wrench", "axes", "_arm", "_body", "_constant", "_turn")

    def __init__(
        self,
        point: Point,
        wrench: ArrayLike | Callable[[float], ArrayLike],
        *,
        axes: str = "world",
    ) -> None:
        self.point, self.wrench = point, wrench
        self.axes = one_of("Wrench: axes", axes, ("world", "body"))

    def bind(self, model: Model) -> Force:
        """Look up the point."""
        who, out = repr(self), copy(self)
        out._body, out._turn, offset = place_that_moves(model, self.point, who, "a force")
        out._arm = skew(offset)
        out._constant = checked_over_time(self.wrench, 6, "wrench", who)
        return out

    def _at(self, t: Any) -> Array:
        """The six numbers at a time, or at each of several."""
        if self._constant is not None:
            return self._constant
        return over_time(self.wrench, t, 6, "the wrench", self)

    def body_forces(self, state: State) -> Array:
        """Carry the force to the body's origin and axes."""
        f = self._at(state.t)
        moment, force = f[..., :3], f[..., 3:]
        if self.axes == "body":
            moment, force = moment @ self._turn.T, force @ self._turn.T
        else:
            R = state.poses[..., self._body, :3, :3]
            moment = (moment[..., None, :] @ R)[..., 0, :]
            force = (force[..., None, :] @ R)[..., 0, :]
        out = np.zeros_like(force, shape=(*state.q.shape[:-1], state.model.n_bodies, 6))
        out[..., self._body, :3] = moment + force @ self._arm.T
        out[..., self._body, 3:] = force
        return out
