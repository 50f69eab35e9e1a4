"""How often a false identity passes: the degree of its two sides, and what follows from it.

Both sides are rational functions of the numbers that are drawn. If they differ, the numerator of
their difference is a polynomial that is not zero. It vanishes at a random point modulo p with a
probability of at most degree / p (Schwartz, Zippel), unless p divides all its coefficients; a
coefficient of b bits has at most b / 30 such primes among the 5 · 10⁷ between 2³⁰ and 2³¹.

The degree is bounded from above: a value is a matrix of polynomials of degree `top` over a common
denominator of degree `bottom`. Joint k turns by a rational function of degree w(k), a transition
along a path by one of degree W = Σ w(k), and what the articulated-body recursion divides by are the
determinants of the mass matrices of all subtrees: D⁻¹(k) is a block of the inverse of that of the
subtree of k, G(k) one of φ M φ* H* times it, and ψ divides by each on a path once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from phipsi.backends.dense.given_values import dimension
from phipsi.errors import ModelError
from phipsi.expressions.kinds import Op
from phipsi.expressions.node import Expr
from phipsi.model import Model
from phipsi.model.points import PointSet
from phipsi.operators import parse
from phipsi.operators.block_formulas import Formula
from phipsi.operators.catalogue import Riccati, definition, family_of
from phipsi.operators.modal_definitions import definition_with_modes
from phipsi.proofs.exact_array import NotRational

_PRIMES = 50_697_537  # between 2³⁰ and 2³¹
_BITS_PER_DEGREE = 2  # of coefficients: the entries of a rotation, of degree two, have norm four
_FACTORS = 12  # a check of the tables has no more factors than these, each at most as large as ψ
_TAU = parse("mass_matrix vdot + H phi (M phi* (a + gravity) + b + B f0)")
_DEFAULT = Riccati()


class Degree(NamedTuple):
    """Degrees of the numerators and of the common denominator of a matrix."""

    top: int
    bottom: int


_NONE = Degree(0, 0)


class Degrees:
    """Upper bounds of the degrees of expressions on one tree."""

    def __init__(self, model: Model, points: PointSet) -> None:
        self._model, self._points = model, points
        turns = [_turn(joint) for joint in model.joints]
        self._modal = 2 * model.is_flexible  # M is of second degree in modes
        self._path = sum(turns)
        subtrees = [model.tree.subtree(k) for k in range(model.n_bodies)]
        self._determinants = sum(
            sum(model.joints[i].nv for i in bodies)
            * (4 * sum(turns[i] for i in bodies) + 6 + self._modal)
            for bodies in subtrees
        )
        self._known: dict[Expr, Degree] = {}

    def of_claim(self, before: Expr, after: Expr) -> int:
        """The degree of the difference of two expressions."""
        return sum(self.of(before)) + sum(self.of(after)) + 1

    def of_determinants(self, terms: list[tuple[int, Expr]]) -> int:
        """The degree of a product of powers of determinants."""
        return sum(abs(c) * self._size(x) * sum(self.of(x)) for c, x in terms)

    def of_check(self, rigid: bool) -> int:
        """The degree of what a check of the tables compares, derivatives included."""
        largest = Degree(self._path + 2, self._path) if rigid else self._riccati("psi", _DEFAULT)
        return 2 * _FACTORS * sum(largest)

    def of(self, x: Expr) -> Degree:
        """The degrees of an expression."""
        if x not in self._known:
            self._known[x] = self._of(x)
        return self._known[x]

    def _of(self, x: Expr) -> Degree:
        if x.op in (Op.ADJOINT, Op.BD, Op.AS_MATRIX):
            return self.of(x.args[0])
        if x.op is Op.SUM:
            parts = [self.of(y) for _, y in x.terms]
            bottom = sum(part.bottom for part in parts)
            return Degree(max(p.top + bottom - p.bottom for p in parts), bottom)
        if x.op is Op.INVERSE:
            return self._inverse(x.args[0])
        if x.op is Op.LEAF:
            return self._leaf(x)
        if x.op in (Op.IDENTITY, Op.ZERO):
            return _NONE
        if isinstance(x.function, Formula):
            raise NotRational(f"the degree of the formula {x} is not known")
        return self._times(*x.args)

    def _times(self, *factors: Expr, also: Degree = _NONE) -> Degree:
        parts = [self.of(y) for y in factors]
        return Degree(
            also.top + sum(p.top for p in parts), also.bottom + sum(p.bottom for p in parts)
        )

    def _size(self, x: Expr) -> int:
        return dimension(x.takes, self._model, self._points)

    def _inverse(self, x: Expr) -> Degree:
        if x.op is Op.LEAF and x.row.riccati and x.name == "D":
            return self._riccati("D", family_of(x))  # a block of the inverse of a mass matrix
        top, bottom = self.of(x)
        return Degree(bottom + max(self._size(x) - 1, 0) * top, self._size(x) * top)

    def _leaf(self, x: Expr) -> Degree:
        if x.name == "tau":
            return self.of(_TAU)
        meaning = definition(x) if x.name != "s_gauge" else None
        if self._modal and x.name in ("a", "b"):
            meaning = definition_with_modes(x)
        if meaning is not None:
            return self.of(meaning)
        if x.row.riccati:
            return self._riccati(x.name, family_of(x))
        if not x.args and "q" not in x.row.needs:
            return Degree(1 + self._modal, 0)
        if x.name == "s_gauge":
            return Degree(4 * self._path + 6, 4 * self._path)
        once = Degree(self._path + 2 + self._modal, self._path)
        if x.name in ("A", "Adot"):  # products of the axes of two frames and of their distance
            once = Degree(4 * self._path + 16, 4 * self._path + 8)
            if x.name == "Adot" and not x.args:
                once = Degree(2 * once.top, 2 * once.bottom)
        return self._times(*x.args, also=once)

    def _riccati(self, name: str, f: Riccati) -> Degree:
        """P, D, G and ψ of a family; each hinge on a path is divided by once."""
        if f == _DEFAULT:
            below = self._determinants
            path = self._path
        else:
            parts: list[Any] = [f.H, f.E, f.M, f.Jr]
            path = sum(sum(self.of(y)) for y in parts if isinstance(y, Expr))
            path *= max(self._model.n_bodies, 1)
            below = self._model.n_bodies * self._model.nv * (4 * path + 6)
        if name in ("P", "D"):
            return Degree(below + 4 * path + 6 + 2 * self._modal, below + 4 * path)
        return Degree(below + 6 * path + 12 + 2 * self._modal, below + 6 * path)


def _turn(joint: Any) -> int:
    """The degree of the pose of a joint on its parent, and of its axes.

    A placement and a quaternion have degree two, an axis, which is a point of the sphere, two, the
    rotation about it six, and a coordinate one. A port that moves is turned by the quaternion
    (1, g), g of degree two in turns and modes, and then by its own: six, and a few for its shifts.
    """
    ports = 14 if getattr(joint, "port_modes", 0) else 0
    joint = getattr(joint, "joint", joint)
    if joint.degree is None:
        raise ModelError(
            f"an exact proof needs the degree of the formulas of {joint.kind} joints, which bounds "
            f"its error probability; {type(joint).__name__} does not declare one.\n"
            f"Give the class `degree` (of its pose and hinge axes, as rational functions of "
            f"parameters and tangents of half angles) and `param_kinds`, or prove the identity "
            f"without a model."
        )
    return 2 + joint.degree + ports


def chance(degree: int, bits: int, prime: int) -> float:
    """A bound of the probability that one random point modulo one random prime does not show a
    difference; `bits` is the size of the numbers that are not drawn.
    """  # noqa: D205
    bad_primes = degree * (_BITS_PER_DEGREE + bits) / 30
    return min(1.0, degree / prime + bad_primes / _PRIMES)
