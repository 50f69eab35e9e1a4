"""Steps whose equation is at their middle, once, for nodes of graphs and for arrays.

The unknowns are the rates w at the middle of the step:

    implicit midpoint   ℳ (w − v) = h/2 T(q_m, w),   q_m = q ∘ exp(h w/2),   v⁺ = 2 w − v

It is symmetric, but not symplectic where ℳ depends on q: that takes momenta.

**The variational step** makes a discrete action stationary. The action of a step from q to
q⁺ = q ∘ exp(h w) is h L(q ∘ exp(h w/2), w), the Lagrangian at the middle of the step. With the
momenta p = ℳ v, and at the middle

    μ = ∂L/∂v = ℳ w,     λ = ∂L/∂q + efforts

(∂L/∂q along the joint rates, as always), the discrete Euler–Lagrange equations are

    dexp(−h w)* p + h/2 dexp(−h w/2)* λ = μ                  an equation for w
    p⁺ = Ad(exp h w)* p + h Ad(exp h w/2)* λ,   ℳ(q⁺) v⁺ = p⁺

with dexp = Ad = 1 for joints with q̇ = v: there it is the implicit midpoint rule in q and p. Free
and planar joints are rotations and translations of their own (joint_groups.py), because momenta of
screw motions would make the spin depend on the speed of flight. The map (q, p) → (q⁺, p⁺) is
symplectic and symmetric, and by Noether's theorem it keeps the momentum of every symmetry: where λ
of a free base is zero, its momenta are carried on unchanged, whatever w is. Efforts act as in the
discrete Lagrange–d'Alembert principle, at the middle of the step.

    ∂L/∂q = (dHT{v}* φ + H cross(E_φ* V)* φ) M V − H φ M φ* gravity

is what `gradient` makes of the kinetic energy: one sweep out and one back, with p on the way. With
flexible bodies it has the terms of Ṁ and Ė, elastic forces and damping of modes too.

Both equations are w = g(w), solved by iteration (fixed_point.py), O(N) each. Laws act at the
middle, and their states take the midpoint rule. With what the efforts of laws resist,
D = h/2 max(0, −∂τ/∂v − h/2 ∂τ/∂q), its diagonal, the iterations are

    w ← v + (ℳ + D)⁻¹ (D (w − v) + h/2 T),     w ← w + (ℳ + D)⁻¹ (momenta − ℳ w)

The solutions do not depend on D, but the iterations converge for stiff springs and dampers at
joints, as Newton's method does. Functions of users have no derivatives: there D is zero.

**Source:** Marsden and West 2001, 1.3 and 2.3; Bou-Rabee and Marsden 2009; Hairer, Lubich and
Wanner 2006, VI.6.

Reasons: docs/decisions/0031 and 0073.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from phipsi.simulation.integrators.tableaux import Method

_ROUNDING = 1e-10
"""Times the square of q/h: changes of rates that q does not feel, when they no longer shrink."""


class Iterate(NamedTuple):
    """What follows from rates w at the middle: the next ones, and how far they are from w.

    **Attributes:** `rates`; `measure`, the squares of their change and of their size; `forces` that
    acted, as `MiddleNumbers.forces` gives them.
    """

    rates: Any
    measure: tuple[Any, Any]
    forces: Any


Image = Callable[[Any, Any, Any], Iterate]


class MiddleNumbers(ABC):
    """A step from one state in one kind of number, which takes +, −, · and `abs`.

    A place is what forces and dynamics are asked at: a configuration, rates, and the states x of
    laws. What `forces` returns is only handed on.

    **Attributes:** `q`, `v` at the start of the step; `h`, its length, s; `start`, its place.
    """

    q: Any
    v: Any
    h: Any
    start: Any

    @abstractmethod
    def dot(self, x: Any, y: Any) -> Any:
        """Σ x y."""

    # ---- the group, from the configuration at the start

    @abstractmethod
    def moved(self, z: Any) -> Any:
        """q ∘ exp(z)."""

    @abstractmethod
    def middle(self, w: Any) -> Any:
        """The configuration at the middle of a variational step with the rates w."""

    @abstractmethod
    def end(self, w: Any) -> Any:
        """The configuration at its end."""

    @abstractmethod
    def wanted(self, w: Any, p: Any, force: Any, now: Any) -> Any:
        """The momenta at its middle that follow from p and λ; `now` are those of w."""

    @abstractmethod
    def after(self, w: Any, p: Any, force: Any) -> Any:
        """The momenta at its end."""

    # ---- the mechanism

    @abstractmethod
    def at_middle(self, q: Any, w: Any, x: Any) -> Any:
        """The place at the middle of the step."""

    @abstractmethod
    def at_end(self, q: Any, v: Any, x: Any) -> Any:
        """The place at the end of the step, with states x at its middle."""

    @abstractmethod
    def forces(self, place: Any) -> Any:
        """What acts at a place."""

    def resistance(self, place: Any) -> Any:
        """2 D/h, or None where D is zero."""
        return None

    @abstractmethod
    def accelerations(self, place: Any, forces: Any, more: Any = None, inertia: Any = None) -> Any:
        """v̇ under forces and `more` efforts, with `inertia` beside that of rotors."""

    @abstractmethod
    def lagrangian(self, place: Any, forces: Any) -> tuple[Any, Any]:
        """μ and λ."""

    @abstractmethod
    def momenta(self, place: Any) -> Any:
        """ℳ v."""

    @abstractmethod
    def rates(self, place: Any, momenta: Any, inertia: Any = None) -> Any:
        """(ℳ + inertia)⁻¹ momenta."""

    # ---- the equation

    @abstractmethod
    def solve(self, middle: Callable[[Any], Any], image: Image, what: str) -> tuple[Any, Any]:
        """w and x with w = image(middle(w), w, x), and the midpoint rule for x.

        ``middle(w)`` is the configuration there; `what` has the equation, for errors.
        """


def take_implicit_step(method: Method, n: MiddleNumbers) -> Any:
    """The place after a step of a method with its equation at the middle."""
    return _variational(n) if method.is_variational else _midpoint(n)


def _measure(n: MiddleNumbers) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Change and size of an iterate: as large as rates are, or as rounding of q makes them."""
    place = n.q / n.h
    least, rounding = n.dot(n.v, n.v), _ROUNDING * n.dot(place, place)

    def measure(w: Any, new: Any) -> tuple[Any, Any]:
        change, step = new - w, new - n.v
        return n.dot(change, change), least + n.dot(step, step) + rounding

    return measure


def _midpoint(n: MiddleNumbers) -> Any:
    half, measure = n.h * 0.5, _measure(n)

    def middle(w: Any) -> Any:
        return n.moved(half * w)

    def image(q: Any, w: Any, x: Any) -> Iterate:
        place = n.at_middle(q, w, x)
        forces, resistance = n.forces(place), n.resistance(place)
        if resistance is None:
            vdot = n.accelerations(place, forces)
        else:
            more = resistance * (w - n.v)
            vdot = n.accelerations(place, forces, more, half * resistance)
        new = n.v + half * vdot
        return Iterate(new, measure(w, new), forces)

    w, x = n.solve(middle, image, "the implicit midpoint rule")
    return n.at_end(n.moved(n.h * w), w * 2.0 - n.v, x)


def _variational(n: MiddleNumbers) -> Any:
    half, p, measure = n.h * 0.5, n.momenta(n.start), _measure(n)

    def image(q: Any, w: Any, x: Any) -> Iterate:
        place = n.at_middle(q, w, x)
        forces, resistance = n.forces(place), n.resistance(place)
        mu, force = n.lagrangian(place, forces)
        wanted = n.wanted(w, p, force, mu)
        if resistance is None:  # energies: in no units, however ℳ is conditioned
            new = n.rates(place, wanted)
            sizes = abs(n.dot(new - w, wanted - mu)), abs(n.dot(new, wanted))
            return Iterate(new, sizes, forces)
        new = w + n.rates(place, wanted - mu, half * resistance)
        return Iterate(new, measure(w, new), forces)

    w, x = n.solve(n.middle, image, "the variational step")
    place = n.at_middle(n.middle(w), w, x)
    _, force = n.lagrangian(place, n.forces(place))
    q, after = n.end(w), n.after(w, p, force)
    # only what 2 w − v misses of v⁺ is solved for: the rounding of a solution is a constant
    # factor for one rigid body, and would make its momentum drift
    guess = w * 2.0 - n.v
    end = n.at_end(q, guess, x)
    return n.at_end(q, guess + n.rates(end, after - n.momenta(end)), x)
