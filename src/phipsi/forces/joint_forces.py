"""Elements that act along joint rates: springs, dampers, friction, stops, and a file's ratings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.algorithms.constrained.assembly import search
from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics.equations_of_motion import mass_matrix
from phipsi.errors import InputError, true_or_false
from phipsi.forces.force import (
    Array,
    Element,
    Force,
    State,
    arguments_of,
    not_negative,
    per_rate,
)
from phipsi.laws.circuit import JointRows
from phipsi.model.mechanisms import mechanism_of, of_drives, of_mechanisms, tree_of
from phipsi.model.model import Model
from phipsi.model.numbers import as_list
from phipsi.motion.checks import checked_number, checked_time
from phipsi.motion.entry_names import rates_of
from phipsi.motion.exponential_chart import Chart

Joints = str | Iterable[str] | None


class _OnRates(Element):
    """Elements with one number per rate in every field; bound, they cover all nv rates."""

    __slots__ = ("joints",)
    unnamed = 1
    joints: Joints

    def _fill(self, joints: Joints, **numbers: Any) -> None:
        self.joints = joints
        if joints is not None and not isinstance(joints, str):
            self.joints = tuple(as_list("joints", joints, "['elbow', 'wrist']"))
        for name, given in numbers.items():
            setattr(self, name, given)

    def _bound(self, model: Model, joints: Joints) -> tuple[Any, Array, Callable[..., Array]]:
        """A copy to bind, the rates of its joints, and its fields as arrays over them by name."""
        rates = rates_of(model, joints)
        first = arguments_of(type(self))[1]
        if joints is None and model.is_flexible and np.ndim(getattr(self, first)) == 0:
            named = [n for n in model.joint_names if len(rates_of(model, n))]
            raise InputError(
                f"{self!r}: without names it acts on all rates, and those of modes of bodies that "
                f"deform are no rates of joints: one {first} for both means nothing in physics. "
                f"Modes have the stiffness and damping of their FlexibleInertia. Name the joints:\n"
                f"    {type(self).__name__}({named!r}, …)\n"
                f"or give nv = {model.nv} numbers."
            )

        def field(name: str, allowed: Any = not_negative, default: Any = None) -> Array:
            given = default if getattr(self, name) is None else getattr(self, name)
            return per_rate(given, len(rates), name, repr(self), allowed)

        return copy(self), rates, field

    @classmethod
    def merge(cls, elements: Sequence[Any]) -> Sequence[Force]:
        """Elements on different rates as one; those that share a rate stay apart."""
        out: list[Any] = []
        for element in elements:
            fits = (x for x in out if not (x._rates() & element._rates()))
            host = next(fits, None)
            if host is None:
                out.append(element)
            else:
                host._join(element)
        return out

    @abstractmethod
    def _rates(self) -> set[int]:
        """Where in v a bound element acts."""

    @abstractmethod
    def _join(self, other: Any) -> None:
        """Take over what another bound element does, on other rates."""


@final
class JointSpring(_OnRates):
    """Spring at joints: tau = −k (q − rest).

    For spherical, free and planar joints the distance is the shortest motion ξ from the rest
    configuration, the energy ½ ξ* k ξ and the effort its exact gradient, −dexp⁻¹(ξ)* k ξ.

    **Arguments:** `joints`, a name, names, or None for all; `stiffness`, N·m/rad or N/m, one number
    or one per rate of those joints; `rest`, the coordinates of those joints where it is relaxed
    (neutral by default). Conservative.

    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1).with_gravity((0, 0, 0))
    >>> spring = pp.forces.JointSpring("joint1", 4 / 3)      # ω = 2 rad/s with 1/3 kg·m²
    >>> swing = pp.simulate(arm, [0.1], [0.0], 3.141592653589793, forces=[spring])
    >>> swing.q[-1].round(9)
    array([0.1])
    """

    __slots__ = ("stiffness", "rest", "_bent", "_chart", "_rest", "_stiffness", "_where")
    parameters: ClassVar[Mapping[str, str]] = {"stiffness": "_stiffness", "rest": "_rest"}

    def __init__(self, joints: Joints, stiffness: ArrayLike, rest: ArrayLike | None = None) -> None:
        self._fill(joints, stiffness=stiffness, rest=rest)

    def bind(self, model: Model) -> Force:
        """Look up the joints and the rest configuration."""
        out, rates, field = self._bound(model, self.joints)
        out._stiffness = np.zeros(model.nv)
        np.add.at(out._stiffness, rates, field("stiffness"))
        rest, where = model.neutral(), _coordinates_of(model, self.joints)
        if self.rest is not None:
            rest[where] = per_rate(self.rest, len(where), "rest", repr(self))
        out._rest, out._chart, out._where = rest, Chart(model), where
        out._bent = bool(out._stiffness[out._chart.curved].any())
        return out

    def _rates(self) -> set[int]:
        return set(np.flatnonzero(self._stiffness).tolist())

    def _join(self, other: JointSpring) -> None:
        self._stiffness = self._stiffness + other._stiffness
        self._rest[other._where] = other._rest[other._where]
        self._bent = self._bent or other._bent

    def _stretch(self, state: State) -> Array:
        if self._bent:
            return self._chart.difference(self._rest, state.q)
        return self._chart.flat_difference(self._rest, state.q)

    def efforts(self, state: State) -> Array:
        """Return −dexp⁻¹(ξ)* k ξ."""
        xi = self._stretch(state)
        pull = self._stiffness * xi
        if not self._bent:
            return -pull
        return -self._chart.rate_adjoint(xi, pull)

    def potential_energy(self, state: State) -> Array:
        """½ ξ* k ξ."""
        xi = self._stretch(state)
        return 0.5 * (xi * xi) @ self._stiffness


@final
class JointDamper(_OnRates):
    """Viscous damping at joints: tau = −c v.

    **Arguments:** `joints`, a name, names, or None for all; `damping`, N·m·s/rad or N·s/m, one
    number or one per rate of those joints.

    >>> import phipsi as pp
    >>> pp.forces.JointDamper("elbow", 0.5)
    JointDamper('elbow', damping=0.5)
    """

    __slots__ = ("damping", "_damping")
    parameters: ClassVar[Mapping[str, str]] = {"damping": "_damping"}

    def __init__(self, joints: Joints, damping: ArrayLike) -> None:
        self._fill(joints, damping=damping)

    def bind(self, model: Model) -> Force:
        """Look up the joints."""
        out, rates, field = self._bound(model, self.joints)
        out._damping = np.zeros(model.nv)
        np.add.at(out._damping, rates, field("damping"))
        return out

    def _rates(self) -> set[int]:
        return set()  # dampers add up, also on the same rates

    def _join(self, other: JointDamper) -> None:
        self._damping = self._damping + other._damping

    def efforts(self, state: State) -> Array:
        """Return −c v."""
        return -self._damping * state.v


@final
class JointFriction(_OnRates):
    """Coulomb friction at joints, smoothed: tau = −F tanh(v / v_s).

    It is 76 % of F at the velocity scale v_s and 99.5 % at 3 v_s. Below v_s it is a stiff damper
    F / v_s, so a joint under load creeps with up to about v_s instead of sticking; a smaller v_s
    creeps less and is stiffer.

    With ``velocity_scale=0`` it is Coulomb's law itself: |tau| ≤ F, and = F against v where the
    joint moves. A joint at rest sticks. Steps of ``integrator="time_stepping"`` solve for the
    impulses |p| ≤ h F together with those of contacts; "dopri" and "radau" locate slips and stops.

    **Arguments:** `joints`, a name, names, or None for all; `friction` F, N·m or N, one number or
    one per rate; `velocity_scale` v_s, rad/s or m/s.

    >>> import phipsi as pp
    >>> pp.forces.JointFriction(None, 0.2)
    JointFriction(None, friction=0.2, velocity_scale=0.01)
    >>> arm = pp.examples.planar_arm(1)                      # its weight turns it with 4.9 N·m
    >>> dry = pp.forces.JointFriction(None, 5.0, velocity_scale=0)
    >>> sim = pp.Simulator(arm, [dry], dt=1e-2, integrator="time_stepping")
    >>> run = sim.rollout(sim.start([0.0]), steps=1000)
    >>> bool(abs(run.q).max() < 1e-12)
    True
    """

    __slots__ = ("friction", "velocity_scale", "_dry", "_friction", "_slope", "_smooth")
    parameters: ClassVar[Mapping[str, str]] = {"friction": "_friction"}

    def __init__(
        self, joints: Joints, friction: ArrayLike, velocity_scale: ArrayLike = 1e-2
    ) -> None:
        self._fill(joints, friction=friction, velocity_scale=velocity_scale)

    def bind(self, model: Model) -> Force:
        """Look up the joints."""
        out, rates, field = self._bound(model, self.joints)
        out._friction, out._slope = np.zeros(model.nv), np.ones(model.nv)
        out._friction[rates], scale = field("friction"), field("velocity_scale")
        out._dry = np.zeros(model.nv, bool)
        out._dry[rates] = scale == 0
        out._smooth = bool((scale > 0).any())
        out._slope[rates] = 1 / np.where(scale > 0, scale, 1.0)
        return out

    def _rates(self) -> set[int]:
        return set(np.flatnonzero((self._friction > 0) | self._dry).tolist())

    def _join(self, other: JointFriction) -> None:
        mine = (self._friction > 0) | self._dry
        self._slope = np.where(mine, self._slope, other._slope)
        self._friction = self._friction + other._friction
        self._dry, self._smooth = self._dry | other._dry, self._smooth or other._smooth

    def efforts(self, state: State) -> Array | None:
        """Return −F tanh(v / v_s); None if all of it is dry."""
        if not self._dry.any():
            return -self._friction * np.tanh(state.v * self._slope)
        if not self._smooth:
            return None
        return -np.where(self._dry, 0.0, self._friction) * np.tanh(state.v * self._slope)

    @property
    def has_rows(self) -> bool:
        """Whether some of it is dry."""
        return bool(self._dry.any())

    def joint_rows(self, state: State) -> JointRows:
        """|p| ≤ h F."""
        dry = np.flatnonzero(self._dry)
        return JointRows(rubs=tuple(dry.tolist()), bounds=self._friction[dry])


@final
class StribeckFriction(_OnRates):
    """Friction that falls from its value at rest to that of sliding, plus a viscous part.

    tau = −[F_c + (F_s − F_c) exp(−(v / v_st)²)] tanh(v / v_s) − c v, smoothed at v = 0 as
    `JointFriction` is.

    **Arguments:** `joints`, a name, names, or None for all; `static` F_s and `sliding` F_c, N·m or
    N, one number or one per rate; `stribeck_velocity` v_st, rad/s or m/s, where the friction has
    fallen by 63 %; `viscous` c, N·m·s/rad or N·s/m; `velocity_scale` v_s, well below v_st.
    **Source:** Armstrong-Hélouvry, Dupont and Canudas de Wit 1994, Automatica 30.

    >>> import phipsi as pp
    >>> pp.forces.StribeckFriction("elbow", 1.5, 1.0, stribeck_velocity=0.1).sliding
    1.0
    """

    __slots__ = (
        "static", "sliding", "stribeck_velocity", "viscous", "velocity_scale", "_fall", "_slope",
        "_sliding", "_static", "_v", "_viscous",
    )  # fmt: skip
    parameters: ClassVar[Mapping[str, str]] = {
        "static": "_static", "sliding": "_sliding", "viscous": "_viscous",
    }  # fmt: skip

    def __init__(
        self,
        joints: Joints,
        static: ArrayLike,
        sliding: ArrayLike,
        stribeck_velocity: ArrayLike,
        viscous: ArrayLike = 0.0,
        velocity_scale: ArrayLike = 1e-2,
    ) -> None:
        self._fill(
            joints, static=static, sliding=sliding, stribeck_velocity=stribeck_velocity,
            viscous=viscous, velocity_scale=velocity_scale,
        )  # fmt: skip

    def bind(self, model: Model) -> Force:
        """Look up the joints."""
        out, out._v, field = self._bound(model, self.joints)
        out._static, out._sliding = field("static"), field("sliding")
        out._viscous = field("viscous")
        fall, scale = field("stribeck_velocity"), field("velocity_scale")
        if not ((fall > 0) & (scale > 0)).all():
            raise InputError(f"{self!r}: stribeck_velocity and velocity_scale must be positive.")
        if (out._static < out._sliding).any():
            raise InputError(f"{self!r}: static friction is less than sliding friction.")
        out._fall, out._slope = 1 / fall, 1 / scale
        return out

    def _rates(self) -> set[int]:
        return set(self._v.tolist())

    def _join(self, other: StribeckFriction) -> None:
        for name in ("_fall", "_slope", "_sliding", "_static", "_v", "_viscous"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(other, name)]))

    def efforts(self, state: State) -> Array:
        """Return −[F_c + (F_s − F_c) exp(−(v / v_st)²)] tanh(v / v_s) − c v."""
        out, v = np.zeros_like(state.v), state.v[..., self._v]
        ratio = v * self._fall
        size = self._sliding + (self._static - self._sliding) * np.exp(-ratio * ratio)
        out[..., self._v] = -size * np.tanh(v * self._slope) - self._viscous * v
        return out


@final
class JointStop(_OnRates):
    """Limits of joints as compliant stops on both sides.

    Beyond a limit by d > 0 the stop pushes back with max(0, k d (1 + α ḋ)), after Hunt and
    Crossley: no jump at contact, and never pulling. It stores ½ k d².

    With ``stiffness=np.inf`` the joint does not pass its limit: 0 ≤ p ⊥ distance ≥ 0. It rebounds
    with `restitution` e times its speed, where that adds no energy. ``integrator="time_stepping"``
    solves for these impulses together with those of contacts; "dopri" and "radau" locate impacts.

    **Arguments:** `joints`, a name, names, or None for all that have limits in the model, and with
    `lower` or `upper` for all that can have some; `stiffness` k, N·m/rad or N/m; `dissipation` α,
    s/rad or s/m (0: elastic); `lower`, `upper`, the model's limits by default; `restitution`, 0 to
    1, of rigid stops. Only for joints whose rates are the derivatives of their coordinates.

    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> stop = pp.forces.JointStop("joint1", 1e4, dissipation=0.3, lower=-1.0)
    >>> fall = pp.simulate(arm, [0.0], [0.0], 0.6, forces=[stop], rtol=1e-6)
    >>> bool(-1.05 < fall.q.min() < -1.0)
    True
    >>> rigid = pp.forces.JointStop("joint1", float("inf"), lower=-1.0)
    >>> sim = pp.Simulator(arm, [rigid], dt=1e-3, integrator="time_stepping")
    >>> run = sim.rollout(sim.start([0.0]), steps=600)
    >>> run.q.min().round(12), run.v[-1].round(12) + 0.0
    (np.float64(-1.0), array([0.]))
    """

    __slots__ = (
        "stiffness", "dissipation", "lower", "upper", "restitution", "_above", "_alpha", "_below",
        "_e", "_gives", "_k", "_lower", "_q", "_upper", "_v",
    )  # fmt: skip
    parameters: ClassVar[Mapping[str, str]] = {
        "stiffness": "_k", "dissipation": "_alpha", "lower": "_lower", "upper": "_upper",
    }  # fmt: skip

    def __init__(
        self,
        joints: Joints,
        stiffness: ArrayLike,
        dissipation: ArrayLike = 0.0,
        *,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        restitution: ArrayLike = 0.0,
    ) -> None:
        self._fill(
            joints, stiffness=stiffness, dissipation=dissipation, lower=lower, upper=upper,
            restitution=restitution,
        )  # fmt: skip

    def bind(self, model: Model) -> Force:
        """Look up the joints and their limits."""
        who = repr(self)
        names = [self.joints] if isinstance(self.joints, str) else self.joints
        given = self.lower is not None or self.upper is not None
        if names is None and given:  # limits for all that can have one
            pairs = zip(model.joint_names, model.joints, strict=True)
            names = [name for name, joint in pairs if joint.is_additive and joint.nv]
        names = _limited(model) if names is None else names
        out, rates, field = self._bound(model, names)
        for name in names:
            if not model.joint(name).joint.is_additive:
                raise InputError(
                    f"{who}: joint {name!r} ({model.joint(name).joint.kind}) has no coordinates "
                    f"whose derivatives are its rates, so a limit on them is not a stop. Write a "
                    f"force element, or use revolute joints with massless bodies between."
                )
        where = _coordinates_of(model, names)
        out._q, out._v = np.array(where, dtype=int), rates
        k, out._alpha = field("stiffness", lambda x: x >= 0), field("dissipation")
        rigid = np.isinf(k)
        out._gives = not rigid.all()
        out._k = np.where(rigid, 0.0, k)
        if out._alpha[rigid].any():
            raise InputError(f"{who}: a rigid stop has no dissipation; it may have a restitution.")
        out._e = field("restitution")
        if (out._e > 1).any():
            raise InputError(f"{who}: restitution above 1 would create energy; it is at most 1.")
        if out._e[~rigid].any():
            raise InputError(f"{who}: a stop that gives has no restitution but a dissipation.")
        lower, upper = model.lower[where], model.upper[where]
        if given:
            lower, upper = field("lower", _known, -np.inf), field("upper", _known, np.inf)
        if (lower > upper).any():
            raise InputError(f"{who}: lower is above upper, so no configuration is inside.")
        if len(rates) and not (np.isfinite(lower) | np.isfinite(upper)).any():
            raise InputError(
                f"{who}: these joints have no limits in the model, so there is nothing to stop at. "
                f"Give them:  JointStop(…, lower=-1.5, upper=1.5)"
            )
        out._lower, out._upper = lower, upper
        out._below, out._above = (rigid & np.isfinite(x) for x in (lower, upper))
        return out

    def _rates(self) -> set[int]:
        return set(self._v.tolist())

    def _join(self, other: JointStop) -> None:
        for name in ("_q", "_v", "_k", "_alpha", "_lower", "_upper", "_below", "_above", "_e"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(other, name)]))
        self._gives = self._gives or other._gives

    def _depth(self, state: State) -> tuple[Array, Array]:
        q = state.q[..., self._q]
        return np.maximum(self._lower - q, 0.0), np.maximum(q - self._upper, 0.0)

    def efforts(self, state: State) -> Array | None:
        """Push back into the range; None if all stops are rigid."""
        if not self._gives:
            return None
        out = np.zeros_like(state.v)
        low, high = self._depth(state)
        v = state.v[..., self._v]
        up = self._k * low * np.maximum(1 - self._alpha * v, 0.0)
        down = self._k * high * np.maximum(1 + self._alpha * v, 0.0)
        out[..., self._v] = up - down
        return out

    @property
    def has_rows(self) -> bool:
        """Whether some limit is rigid."""
        return bool(self._below.any() or self._above.any())

    def joint_rows(self, state: State) -> JointRows:
        """0 ≤ p ⊥ q − lower ≥ 0, and the same above."""
        low, high = np.flatnonzero(self._below), np.flatnonzero(self._above)
        stops = [(int(self._v[i]), 1) for i in low] + [(int(self._v[i]), -1) for i in high]
        below = state.q[self._q[low]] - self._lower[low]
        above = self._upper[high] - state.q[self._q[high]]
        e = tuple(float(self._e[i]) for i in (*low, *high))
        return JointRows(tuple(stops), np.concatenate([below, above]), rebounds=e)

    def potential_energy(self, state: State) -> Array | None:
        """½ k d²; None if all stops are rigid."""
        if not self._gives:
            return None
        low, high = self._depth(state)
        return 0.5 * (low * low + high * high) @ self._k


@of_drives
@of_mechanisms
def from_ratings(
    model: Model,
    *,
    stop_time: float | None = None,
    dissipation: float | None = None,
    velocity_scale: float | None = None,
    exact: bool = False,
) -> list[Force]:
    """What a model or its file says about its joints: damping, friction and limits, as elements.

    `simulate` itself leaves them out, so that nothing acts that was not asked for. Damping is
    `model.damping`, friction that of `model.ratings`, and limits become stops as stiff as needed
    for a contact of at most about `stop_time`: k = m (π / stop_time)² with m the joint's largest
    entry of the mass matrix at neutral q and 64 random configurations (always the same ones). In a
    system with loops a joint also moves what the loops couple to it: the configurations are those
    that close the loops, and m is at least 1/Y_kk with Y the accelerations by efforts, wherever the
    loops let the joint move.

    **Arguments:** `stop_time`, 0.02 s; `dissipation` of the stops (0) and `velocity_scale` of
    friction (0.01) as in `JointStop` and `JointFriction`; `exact`, True for rigid stops and dry
    friction, which have none of these, and with which ``integrator="time_stepping"`` runs.
    **Returns:** a list of elements for `simulate(forces=…)` and `Simulator`.

    >>> import phipsi as pp
    >>> [type(x).__name__ for x in pp.forces.from_ratings(pp.examples.seven_joint_arm())]
    ['JointDamper', 'JointStop']
    """
    mechanism, model = mechanism_of(model, from_ratings), tree_of(model, from_ratings)
    exact = true_or_false("exact", exact)
    soft = {"stop_time": stop_time, "dissipation": dissipation, "velocity_scale": velocity_scale}
    for name, x in soft.items():
        if exact and x is not None:
            raise InputError(
                f"{name}={x!r} would do nothing: exact=True makes stops rigid and friction dry. "
                f"Leave one of the two out"
            )
    stop_time = checked_time(0.02 if stop_time is None else stop_time, "stop_time")
    dissipation, velocity_scale = (
        checked_number(default if x is None else x, name, "a finite number of", zero=True)
        for name, x, default in (
            ("dissipation", dissipation, 0.0), ("velocity_scale", velocity_scale, 1e-2),
        )
    )  # fmt: skip
    out: list[Force] = []
    if model.damping.any():
        out.append(JointDamper(None, model.damping))
    rubbing = {name: r.friction for name, r in model.ratings.items() if np.any(r.friction)}
    for name, friction in rubbing.items():
        out.append(JointFriction(name, friction, 0.0 if exact else velocity_scale))
    limited = [name for name in _limited(model) if model.joint(name).joint.is_additive]
    if limited and exact:
        out.append(JointStop(limited, np.inf))
    elif limited:
        inertia = _largest_inertias(mechanism)
        stiffness = inertia[rates_of(model, limited)] * (np.pi / stop_time) ** 2
        out.append(JointStop(limited, stiffness, dissipation))
    return out


def _known(x: Array) -> Array:
    """Where limits are numbers; those that are infinite are none."""
    return ~np.isnan(x)


def _limited(model: Model) -> list[str]:
    """The joints that have limits."""
    places = zip(model.joint_names, model.q_slices, strict=True)
    return [n for n, at in places if np.isfinite([*model.lower[at], *model.upper[at]]).any()]


def _coordinates_of(model: Model, joints: Joints) -> list[int]:
    """Places in q of the joints' own coordinates, without modes; None means all of q."""
    if joints is None:
        return list(range(model.nq))
    names = [joints] if isinstance(joints, str) else list(joints)
    return [i for name in names for i in range(model.nq)[model.joint_coordinates(name)]]


# A joint whose rate is this much smaller than without loops stands still and hits no stop; squared.
_STANDS = 1e-2


def _largest_inertias(mechanism: Model) -> Array:
    """The largest inertia (nv,) that each joint moves, at configurations without a pattern."""
    tree = mechanism.model
    some = np.vstack([tree.neutral(), tree.random_configuration(0, (64,))])
    if not isinstance(mechanism, System):
        return np.diagonal(mass_matrix(tree, some), axis1=-2, axis2=-1).max(axis=0)
    found, closed = search(mechanism.rows, some, tolerance=1e-8, max_iterations=100)
    if not closed.any():
        raise InputError(
            "from_ratings finds no configuration that closes the loops, so it is not known what "
            "inertia hits the stops. Give them yourself:  forces.JointStop('elbow', stiffness)"
        )
    own = np.diagonal(mass_matrix(tree, found[closed]), axis1=-2, axis2=-1)
    at = ConstraintMetric(mechanism.rows, found[closed])
    alone = np.einsum("nij,nij->ni", at.back, at.back)
    coupled = np.einsum("nii->ni", at.by_efforts)
    moves = coupled > _STANDS * alone
    return np.where(moves, np.maximum(own, 1 / np.where(moves, coupled, 1.0)), own).max(axis=0)
