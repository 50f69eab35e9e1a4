"""Elements that act along joint rates: springs, dampers, friction, and those of a robot file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.algorithms import Chart, ConstraintMetric, System, mass_matrix, search
from phipsi.core.model import UNAFFECTED, Model, mechanism_of, rates_of, supports, tree_of
from phipsi.errors import InputError, true_or_false
from phipsi.laws import JointRows
from phipsi.simulation.forces.force import Array, Force, State, per_rate
from phipsi.simulation.forces.joint_limits import JointLimit, limited_joints
from phipsi.simulation.forces.on_rates import Joints, OnRates, coordinates_of
from phipsi.simulation.runs.checks import checked_number, checked_time


@final
class JointSpring(OnRates):
    """Spring at joints: tau = −k (q − rest).

    For spherical, free and planar joints the distance is the shortest motion ξ from the rest
    configuration, the energy ½ ξ* k ξ and the torque its exact gradient, −dexp⁻¹(ξ)* k ξ.
    Conservative.

    Parameters
    ----------
    joints : str, sequence of str or None
        Names of joints, or None for all.
    stiffness : array_like
        N·m/rad or N/m, one number or one per velocity of those joints.
    rest : array_like, optional
        Coordinates of those joints where the spring is relaxed. Default: neutral.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1).with_gravity((0, 0, 0))
    >>> spring = pp.forces.JointSpring("joint1", 4 / 3)      # ω = 2 rad/s with 1/3 kg·m²
    >>> swing = pp.simulate(arm, [0.1], [0.0], 3.141592653589793, forces=[spring])
    >>> swing.q[-1].round(9)
    array([0.1])
    """

    __slots__ = ("stiffness", "rest", "_bent", "_chart", "_rest", "_stiffness", "_where")
    parameters: ClassVar[Mapping[str, str]] = {"stiffness": "_stiffness", "rest": "_rest"}
    not_negative: ClassVar[tuple[str, ...]] = ("stiffness",)

    def __init__(self, joints: Joints, stiffness: ArrayLike, rest: ArrayLike | None = None) -> None:
        self._fill(joints, stiffness=stiffness, rest=rest)

    def bind(self, model: Model) -> Force:
        """Look up the joints and the rest configuration."""
        out, rates, field = self._bound(model, self.joints)
        out._stiffness = np.zeros(model.nv)
        np.add.at(out._stiffness, rates, field("stiffness"))
        rest, where = model.neutral(), coordinates_of(model, self.joints)
        if self.rest is not None:
            rest[where] = per_rate(self.rest, len(where), "rest", repr(self))
        out._rest, out._chart, out._where = rest, Chart(model), where
        # also where the stiffness is 0: a run may change it
        out._bent = bool(np.isin(rates, out._chart.curved).any())
        return out

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
class JointDamper(OnRates):
    """Viscous damping at joints: tau = −c v.

    Parameters
    ----------
    joints : str, sequence of str or None
        Names of joints, or None for all.
    damping : array_like
        N·m·s/rad or N·s/m, one number or one per velocity of those joints.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.forces.JointDamper("elbow", 0.5)
    JointDamper('elbow', damping=0.5)
    """

    __slots__ = ("damping", "_damping")
    parameters: ClassVar[Mapping[str, str]] = {"damping": "_damping"}
    not_negative: ClassVar[tuple[str, ...]] = ("damping",)

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
class JointFriction(OnRates):
    """Coulomb friction at joints, smoothed: tau = −F tanh(v / v_s); or exact dry friction.

    It is 76 % of F at the velocity scale v_s and 99.5 % at 3 v_s. Below v_s it is a stiff damper
    F / v_s, so a joint under load creeps with up to about v_s instead of sticking; a smaller v_s
    creeps less and is stiffer.

    With ``velocity_scale=0`` it is Coulomb's law itself: |tau| ≤ F, and = F against v where the
    joint moves. A joint at rest sticks. Steps of ``integrator="time_stepping"`` solve for the
    impulses |p| ≤ h F together with those of contacts; "dopri" and "radau" locate slips and stops.

    Parameters
    ----------
    joints : str, sequence of str or None
        Names of joints, or None for all.
    friction : array_like
        F, N·m or N, one number or one per velocity.
    velocity_scale : array_like, optional
        v_s, rad/s or m/s.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.forces.JointFriction(None, 0.2)
    JointFriction(None, friction=0.2, velocity_scale=0.01)
    >>> arm = pp.examples.planar_arm(1)                      # its weight turns it with 4.9 N·m
    >>> dry = pp.forces.JointFriction(None, 5.0, velocity_scale=0)
    >>> sim = pp.Simulator(arm, [dry], dt=1e-2, integrator="time_stepping")
    >>> run = sim.rollout(sim.initial_state([0.0]), steps=1000)
    >>> bool(abs(run.q).max() < 1e-12)
    True
    """

    __slots__ = ("friction", "velocity_scale", "_dry", "_friction", "_slope", "_smooth")
    parameters: ClassVar[Mapping[str, str]] = {"friction": "_friction"}
    not_negative: ClassVar[tuple[str, ...]] = ("friction",)

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

    def _join(self, other: JointFriction) -> None:
        for name in ("_friction", "_slope"):
            getattr(self, name)[other._v] = getattr(other, name)[other._v]
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
class StribeckFriction(OnRates):
    """Stribeck friction: it falls from its value at rest to that of sliding, plus a viscous part.

    tau = −[F_c + (F_s − F_c) exp(−(v / v_st)²)] tanh(v / v_s) − c v, smoothed at v = 0 as
    `JointFriction` is.

    Parameters
    ----------
    joints : str, sequence of str or None
        Names of joints, or None for all.
    static, sliding : array_like
        F_s and F_c, N·m or N, one number or one per velocity.
    stribeck_velocity : array_like
        v_st, rad/s or m/s, where the friction has fallen by 63 %.
    viscous : array_like, optional
        Viscous damping c, N·m·s/rad or N·s/m.
    velocity_scale : array_like, optional
        v_s, well below v_st.

    Notes
    -----
    **Source:** Armstrong-Hélouvry, Dupont and Canudas de Wit 1994, Automatica 30.

    Examples
    --------
    >>> import phipsi as pp
    >>> pp.forces.StribeckFriction("elbow", 1.5, 1.0, stribeck_velocity=0.1).sliding
    1.0
    """

    __slots__ = (
        "static", "sliding", "stribeck_velocity", "viscous", "velocity_scale", "_fall", "_slope",
        "_sliding", "_static", "_viscous",
    )  # fmt: skip
    parameters: ClassVar[Mapping[str, str]] = {
        "static": "_static", "sliding": "_sliding", "viscous": "_viscous",
    }  # fmt: skip
    not_negative: ClassVar[tuple[str, ...]] = ("static", "sliding", "viscous")

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
        out, _, field = self._bound(model, self.joints)
        out._static, out._sliding = field("static"), field("sliding")
        out._viscous = field("viscous")
        fall, scale = field("stribeck_velocity"), field("velocity_scale")
        if not ((fall > 0) & (scale > 0)).all():
            raise InputError(f"{self!r}: stribeck_velocity and velocity_scale must be positive.")
        if (out._static < out._sliding).any():
            raise InputError(f"{self!r}: static friction is less than sliding friction.")
        out._fall, out._slope = 1 / fall, 1 / scale
        return out

    def _join(self, other: StribeckFriction) -> None:
        for name in ("_fall", "_slope", "_sliding", "_static", "_viscous"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(other, name)]))

    def efforts(self, state: State) -> Array:
        """Return −[F_c + (F_s − F_c) exp(−(v / v_st)²)] tanh(v / v_s) − c v."""
        out, v = np.zeros_like(state.v), state.v[..., self._v]
        ratio = v * self._fall
        size = self._sliding + (self._static - self._sliding) * np.exp(-ratio * ratio)
        out[..., self._v] = -size * np.tanh(v * self._slope) - self._viscous * v
        return out


@supports(loops=True, contacts=UNAFFECTED, rotors=True)
def from_model(
    model: Model,
    *,
    limit_time: float | None = None,
    dissipation: float | None = None,
    velocity_scale: float | None = None,
    exact: bool = False,
) -> list[Force]:
    """Force elements for the damping, friction and limits declared in the model or robot file.

    `simulate` itself does not add them, so that nothing acts that was not asked for. Damping is
    `model.damping`, friction that of `model.joint_properties`, and limits become compliant stops as
    stiff as needed for a contact of at most about `limit_time`: k = m (π / limit_time)² with m the
    joint's largest entry of the mass matrix at neutral q and 64 random configurations (always the
    same ones). In a system with loops a joint also moves what the loops couple to it: the
    configurations are those that close the loops, and m is at least 1/Y_kk, with Y the derivative
    of accelerations with respect to tau, wherever the loops let the joint move.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    limit_time : float, optional
        Longest time of a contact with a limit, s. Default: 0.02.
    dissipation : float, optional
        Dissipation of limits, as in `JointLimit`. Default: 0, elastic limits. With contacts, or for
        states that may begin beyond limits, ``exact=True`` is the better choice.
    velocity_scale : float, optional
        Velocity scale of friction, as in `JointFriction`. Default: 0.01.
    exact : bool, optional
        True for rigid limits and dry friction, which have none of these, and with which
        ``integrator="time_stepping"`` works.

    Returns
    -------
    list of Force
        Elements for `simulate(forces=…)` and `Simulator`.

    Examples
    --------
    >>> import phipsi as pp
    >>> [type(x).__name__ for x in pp.forces.from_model(pp.examples.seven_joint_arm())]
    ['JointDamper', 'JointLimit']
    """
    mechanism, model = mechanism_of(model, from_model), tree_of(model, from_model)
    exact = true_or_false("exact", exact)
    soft = {"limit_time": limit_time, "dissipation": dissipation, "velocity_scale": velocity_scale}
    for name, x in soft.items():
        if exact and x is not None:
            raise InputError(
                f"{name}={x!r} has no effect: exact=True makes joint limits rigid and friction "
                "dry. Remove one of the two"
            )
    limit_time = checked_time(0.02 if limit_time is None else limit_time, "limit_time")
    dissipation, velocity_scale = (
        checked_number(default if x is None else x, name, "a finite number of", zero=True)
        for name, x, default in (
            ("dissipation", dissipation, 0.0), ("velocity_scale", velocity_scale, 1e-2),
        )
    )  # fmt: skip
    out: list[Force] = []
    if model.damping.any():
        out.append(JointDamper(None, model.damping))
    rubbing = {name: r.friction for name, r in model.joint_properties.items() if np.any(r.friction)}
    for name, friction in rubbing.items():
        out.append(JointFriction(name, friction, 0.0 if exact else velocity_scale))
    limited = [name for name in limited_joints(model) if model.joint(name).joint.is_additive]
    if limited and exact:
        out.append(JointLimit(limited, np.inf))
    elif limited:
        inertia = _largest_inertias(mechanism)
        stiffness = inertia[rates_of(model, limited)] * (np.pi / limit_time) ** 2
        out.append(JointLimit(limited, stiffness, dissipation))
    return out


# A joint whose rate is this much smaller than without loops stands still and hits no stop; squared.
_STANDS = 1e-2


def _largest_inertias(mechanism: Model) -> Array:
    """The largest inertia (nv,) that each joint moves, at configurations without a pattern."""
    tree = mechanism.model
    some = np.vstack([tree.neutral(), tree.random_configuration(0, (64,))])
    if not isinstance(mechanism, System) or not mechanism.n_rows:
        return np.diagonal(mass_matrix(tree, some), axis1=-2, axis2=-1).max(axis=0)
    found, closed = search(mechanism.rows, some, tolerance=1e-8, max_iterations=100)
    if not closed.any():
        raise InputError(
            "from_model found no configuration that closes the loops, so the inertia at the "
            "joint limits is unknown. Pass the limits yourself:  forces.JointLimit('elbow', "
            "stiffness)"
        )
    own = np.diagonal(mass_matrix(tree, found[closed]), axis1=-2, axis2=-1)
    at = ConstraintMetric(mechanism.rows, found[closed])
    alone = np.einsum("nij,nij->ni", at.back, at.back)
    coupled = np.einsum("nii->ni", at.by_efforts)
    moves = coupled > _STANDS * alone
    return np.where(moves, np.maximum(own, 1 / np.where(moves, coupled, 1.0)), own).max(axis=0)
