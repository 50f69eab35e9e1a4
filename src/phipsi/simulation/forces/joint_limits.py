"""Stops: limits of joints, compliant or rigid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.model import Model
from phipsi.errors import InputError, warn
from phipsi.laws import JointRows
from phipsi.simulation.forces.force import Allowed, Array, Force, State
from phipsi.simulation.forces.on_rates import Joints, OnRates, coordinates_of

_STIFFNESS = Allowed(lambda x: x >= 0, "at least 0; inf makes the limit rigid")
_LOWER = Allowed(lambda x: x < np.inf, "a number, or -inf for no limit")
_UPPER = Allowed(lambda x: x > -np.inf, "a number, or inf for no limit")


@final
class JointLimit(OnRates):
    """Joint limits as compliant or rigid stops on both sides.

    Beyond a limit by d > 0 the stop pushes back with max(0, k d (1 + α ḋ)) (Hunt–Crossley): no jump
    at contact, and never pulling. It stores ½ k d².

    With ``stiffness=np.inf`` the joint does not pass its limit: 0 ≤ p ⊥ distance ≥ 0. It rebounds
    with `restitution` e times its speed, where that adds no energy. ``integrator="time_stepping"``
    solves for these impulses together with those of contacts; "dopri" and "radau" locate impacts.
    Only for joints whose velocities are the derivatives of their coordinates.

    Parameters
    ----------
    joints : str, sequence of str or None
        Names of joints, or None for all that have limits in the model, and with `lower` or `upper`
        for all that can have some.
    stiffness : array_like
        k, N·m/rad or N/m.
    dissipation : array_like, optional
        α, s/rad or s/m (0: elastic).
    lower, upper : array_like, optional
        Limits. Default: those of the model.
    restitution : array_like, optional
        Coefficient of restitution of rigid limits, 0 to 1.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> stop = pp.forces.JointLimit("joint1", 1e4, dissipation=0.3, lower=-1.0)
    >>> fall = pp.simulate(arm, [0.0], [0.0], 0.6, forces=[stop], rtol=1e-6)
    >>> bool(-1.05 < fall.q.min() < -1.0)
    True
    >>> rigid = pp.forces.JointLimit("joint1", float("inf"), lower=-1.0)
    >>> sim = pp.Simulator(arm, [rigid], dt=1e-3, integrator="time_stepping")
    >>> run = sim.rollout(sim.initial_state([0.0]), steps=600)
    >>> run.q.min().round(12), run.v[-1].round(12) + 0.0
    (np.float64(-1.0), array([0.]))
    """

    __slots__ = (
        "stiffness", "dissipation", "lower", "upper", "restitution", "_above", "_alpha", "_below",
        "_e", "_k", "_lower", "_q", "_rigid", "_upper",
    )  # fmt: skip
    parameters: ClassVar[Mapping[str, str]] = {
        "stiffness": "_k", "dissipation": "_alpha", "lower": "_lower", "upper": "_upper",
    }  # fmt: skip
    not_negative: ClassVar[tuple[str, ...]] = ("stiffness", "dissipation")

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
        names = limited_joints(model) if names is None else names
        if not names and self.joints is None and not given and model.nv:
            raise InputError(self._no_limits("no joint of the model has limits"))
        out, rates, field = self._bound(model, names)
        for name in names:
            if not model.joint(name).joint.is_additive:
                raise InputError(
                    f"{who}: joint {name!r} ({model.joint(name).joint.kind}) has no coordinates "
                    "whose derivatives are its velocities, so it cannot have limits. Write a "
                    "force element, or use revolute joints with massless bodies between."
                )
        where = coordinates_of(model, names)
        out._q = np.array(where, dtype=int)
        out._k, out._alpha = field("stiffness", _STIFFNESS), field("dissipation")
        out._rigid = rigid = np.isinf(out._k)
        if out._alpha[rigid].any():
            raise InputError(
                f"{who}: dissipation= applies only to compliant limits (finite stiffness=). For a "
                "rigid limit use restitution=."
            )
        out._e = field("restitution")
        if (out._e > 1).any():
            raise InputError(f"{who}: restitution above 1 would create energy; it is at most 1.")
        if out._e[~rigid].any():
            raise InputError(
                f"{who}: restitution= applies only to rigid limits (stiffness=inf). For a "
                "compliant limit use dissipation=."
            )
        lower, upper = model.lower[where], model.upper[where]
        if given:
            lower, upper = field("lower", _LOWER, -np.inf), field("upper", _UPPER, np.inf)
        if (lower > upper).any():
            raise InputError(
                f"{who}: lower is above upper, so no configuration is within the limits."
            )
        if len(rates) and not (np.isfinite(lower) | np.isfinite(upper)).any():
            raise InputError(self._no_limits("these joints have no limits in the model"))
        out._lower, out._upper = lower, upper
        out._below, out._above = (rigid & np.isfinite(x) for x in (lower, upper))
        return out

    def _no_limits(self, why: str) -> str:
        return (
            f"{self!r}: {why}, so JointLimit has no effect. Pass limits:  JointLimit(…, "
            "lower=-1.5, upper=1.5)"
        )

    def _join(self, other: JointLimit) -> None:
        names = ("_q", "_k", "_alpha", "_lower", "_upper", "_below", "_above", "_e", "_rigid")
        for name in names:
            setattr(self, name, np.concatenate([getattr(self, name), getattr(other, name)]))

    def unchangeable(self) -> Mapping[str, tuple[Array, str]]:
        """What follows from which stops are rigid, and on which side."""
        firm = "it cannot be set on a rigid limit. Make it compliant:  JointLimit(…, stiffness=1e4)"
        side = "the rigid limit is infinite on this side. Pass a finite one:  JointLimit(…, {}={})"
        return {
            "stiffness": (self._rigid, firm),
            "dissipation": (self._rigid, firm),
            "lower": (self._rigid & ~self._below, side.format("lower", -3.0)),
            "upper": (self._rigid & ~self._above, side.format("upper", 3.0)),
        }

    @property
    def _is_rigid(self) -> bool:
        """Whether there are stops, and all of them are rigid."""
        return bool(len(self._rigid) and self._rigid.all())

    @property
    def _spring(self) -> Any:
        """Stiffnesses, 0 of rigid stops."""
        return np.where(self._rigid, 0.0, self._k) if self._rigid.any() else self._k

    def _depth(self, state: State) -> tuple[Array, Array]:
        q = state.q[..., self._q]
        return np.maximum(self._lower - q, 0.0), np.maximum(q - self._upper, 0.0)

    def efforts(self, state: State) -> Array | None:
        """Push back into the range; None if all stops are rigid."""
        if self._is_rigid:
            return None
        out, k = np.zeros_like(state.v), self._spring
        low, high = self._depth(state)
        v = state.v[..., self._v]
        up = k * low * np.maximum(1 - self._alpha * v, 0.0)
        down = k * high * np.maximum(1 + self._alpha * v, 0.0)
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
        if self._is_rigid:
            return None
        low, high = self._depth(state)
        return 0.5 * (low * low + high * high) @ self._spring


def limited_joints(model: Model) -> list[str]:
    """The joints that have limits."""
    places = zip(model.joint_names, model.q_slices, strict=True)
    return [n for n, at in places if np.isfinite([*model.lower[at], *model.upper[at]]).any()]


_DEEP = 1e-2  # rad or m: deeper than weight and small velocities press a joint into a stop


def warn_beyond_limits(model: Model, forces: object, q: Array) -> None:
    """Warn if configurations (..., nq) begin deep beyond compliant limits of the model."""
    for force in forces if isinstance(forces, Iterable) else (forces,):
        if not isinstance(force, JointLimit) or not (force.lower is force.upper is None):
            continue  # whoever passes limits knows them
        bound = force.bind(model)
        if not isinstance(bound, JointLimit) or not len(bound._q) or not q.size:
            continue
        at = q.reshape(-1, model.nq)[:, bound._q]
        depths = np.maximum(bound._lower - at, at - bound._upper) * (bound._spring > 0)
        n, i = np.unravel_index(int(np.argmax(depths)), depths.shape)
        if depths[n, i] > _DEEP:
            where = int(bound._q[i])
            slices = zip(model.joint_names, model.q_slices, strict=True)
            name = next(x for x, s in slices if s.start <= where < s.stop)
            depth, k = float(depths[n, i]), float(bound._k[i])
            nearest = float(np.clip(at[n, i], bound._lower[i], bound._upper[i]))
            warn(
                f"joint {name!r} begins at {at[n, i]:.4g}, beyond its limits {bound._lower[i]:.4g} "
                f"to {bound._upper[i]:.4g} by {depth:.3g}: the compliant limit pushes with "
                f"{k * depth:.3g} N·m (or N), and gives {k * depth**2 / 2:.3g} J to the motion. "
                f"Begin within the limits:\n    q[..., {where}] = {nearest!r}"
            )
            return
