"""Compliant transmissions: shafts, belts and gears with stiffness, damping and backlash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import ClassVar, cast, final

import numpy as np
from numpy.typing import ArrayLike

from phipsi.core.model import Model, as_list
from phipsi.errors import InputError
from phipsi.simulation.forces.force import (
    FINITE,
    NOT_NEGATIVE,
    Allowed,
    Array,
    Force,
    PrintedForce,
    State,
    per_rate,
)


@final
class ElasticCoupling(PrintedForce):
    """Compliant coupling between joints: spring, damper and optional backlash.

    The compliant form of `constraints.Coupling`. Its twist is x = Σ coefficient · q − offset.
    Within ±backlash/2 nothing is transmitted; beyond it by d > 0 the load is k d (1 + α ḋ), never
    pulling (Hunt–Crossley), plus c ẋ if there is no backlash. The joint torques are
    −coefficient · load; it stores ½ k d².

    A series-elastic joint is a rotor on the parent body and this element between rotor and joint:
    ``ElasticCoupling(("rotor", "elbow"), (1 / 100, -1), stiffness=300)``.

    Parameters
    ----------
    joints : sequence of str
        Names of joints with one coordinate each.
    coefficients : array_like, shape (len(joints),)
        One number per joint.
    stiffness : float
        Stiffness k, in units of torque or force per unit of x.
    damping : float, optional
        Damping c, likewise per rate.
    backlash : float, optional
        The whole gap, in units of x.
    dissipation : float, optional
        Hunt–Crossley dissipation α, in 1/(unit of x per s).
    offset : float, optional
        The value of Σ coefficient · q at which the coupling is relaxed.

    Examples
    --------
    >>> import phipsi as pp
    >>> b = pp.ModelBuilder(gravity=(0, 0, 0))
    >>> rotor, link = (pp.SpatialInertia(1.0, (0, 0, 0), J) for J in (1e-4, 0.5))
    >>> for name, inertia in (("rotor", rotor), ("link", link)):
    ...     body = b.add_body(name, inertia=inertia)
    >>> shaft = pp.forces.ElasticCoupling(("rotor", "link"), (1 / 50, -1), stiffness=300.0)
    >>> run = pp.simulate(b.build(), [1.0, 0.0], [0, 0], 0.5, forces=[shaft], rtol=1e-8)
    >>> bool(abs(run.energy / run.energy[0] - 1).max() < 1e-5)
    True
    """

    __slots__ = (
        "_alpha", "_c", "_gap", "_k", "_offset", "_q", "_v", "_weights", "joints", "coefficients",
        "stiffness", "damping", "backlash", "dissipation", "offset",
    )  # fmt: skip
    parameters: ClassVar[Mapping[str, str]] = {
        "stiffness": "_k", "damping": "_c", "backlash": "_gap", "dissipation": "_alpha",
        "offset": "_offset",
    }  # fmt: skip
    not_negative: ClassVar[tuple[str, ...]] = (
        "stiffness", "damping", "backlash", "dissipation",
    )  # fmt: skip

    def __init__(
        self,
        joints: Sequence[str],
        coefficients: ArrayLike,
        stiffness: float,
        *,
        damping: float = 0.0,
        backlash: float = 0.0,
        dissipation: float = 0.0,
        offset: float = 0.0,
    ) -> None:
        self.joints = tuple(as_list("joints", joints, "('rotor', 'elbow')"))
        self.coefficients, self.stiffness, self.damping = coefficients, stiffness, damping
        self.backlash, self.dissipation, self.offset = backlash, dissipation, offset

    def bind(self, model: Model) -> Force:
        """Look up the joints."""
        who = repr(self)
        texts = all(isinstance(cast(object, x), str) for x in self.joints)
        if not texts or not self.joints or len(set(self.joints)) < len(self.joints):
            raise InputError(f"{who}: joints must be one or more different names.")
        for name in self.joints:
            joint = model.joint(name).joint
            if joint.nv != 1 or not joint.is_additive:
                raise InputError(
                    f"{who}: joint {name!r} ({joint.kind}) does not have exactly one coordinate; "
                    "a coupling is a sum of single coordinates. Use revolute, prismatic or "
                    "helical joints with massless bodies between them."
                )

        def one(name: str, allowed: Allowed = NOT_NEGATIVE) -> Array:
            return per_rate(getattr(self, name), 1, name, who, allowed)

        out = copy(self)
        if (shape := np.shape(self.coefficients)) != (len(self.joints),):
            raise InputError(
                f"{who}: coefficients has shape {shape}; pass one for each of the "
                f"{len(self.joints)} joints, for example (1, -1) for the angle between two "
                "shafts."
            )
        out._weights = per_rate(self.coefficients, len(self.joints), "coefficients", who)
        if not out._weights.all():
            raise InputError(f"{who}: a joint with coefficient 0 has no effect. Remove it.")
        out._q = np.array([model.q_slice(name).start for name in self.joints])
        out._v = np.array([model.v_slice(name).start for name in self.joints])
        out._k, out._c, out._gap = one("stiffness"), one("damping"), one("backlash")
        out._alpha, out._offset = one("dissipation"), one("offset", FINITE)
        if out._c.any() and out._gap.any():
            raise InputError(
                f"{who}: damping= cannot be combined with backlash=, because it would jump where "
                "the teeth meet. Use dissipation= (Hunt–Crossley), which grows with the load."
            )
        return out

    def _depths(self, state: State) -> tuple[Array, Array]:
        """How far the twist is beyond the gap on either side, (..., 1) each."""
        x = np.sum(state.q[..., self._q] * self._weights, axis=-1, keepdims=True) - self._offset
        half = 0.5 * self._gap
        return np.maximum(x - half, 0.0), np.maximum(-half - x, 0.0)

    def efforts(self, state: State) -> Array:
        """−coefficient · load."""
        high, low = self._depths(state)
        rate = np.sum(state.v[..., self._v] * self._weights, axis=-1, keepdims=True)
        load = (
            self._k * high * np.maximum(1 + self._alpha * rate, 0.0)
            - self._k * low * np.maximum(1 - self._alpha * rate, 0.0)
            + self._c * rate
        )
        out = np.zeros_like(state.v)
        out[..., self._v] = -load * self._weights
        return out

    def potential_energy(self, state: State) -> Array:
        """½ k d²."""
        high, low = self._depths(state)
        return np.sum(0.5 * self._k * (high * high + low * low), axis=-1)
