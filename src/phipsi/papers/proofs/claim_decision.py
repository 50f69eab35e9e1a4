"""Decide one claim: modulo primes where it is rational, in fifty digits where it is not.

How often a false identity passes follows from the degree of its two sides. Both are rational
functions of the numbers that are drawn. If they differ, the numerator of their difference is a
polynomial that is not zero. It vanishes at a random point modulo p with a probability of at most
degree / p (Schwartz, Zippel), unless p divides all its coefficients; a coefficient of b bits has at
most b / 30 such primes among the 5 · 10⁷ between 2³⁰ and 2³¹.

The degree is bounded from above: a value is a matrix of polynomials of degree `top` over a common
denominator of degree `bottom`. Joint k turns by a rational function of degree w(k), a transition
along a path by one of degree W = Σ w(k), and what the articulated-body recursion divides by are the
determinants of the mass matrices of all subtrees: D⁻¹(k) is a block of the inverse of that of the
subtree of k, G(k) one of φ M φ* H* times it, and ψ divides by each on a path once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phipsi.core.expressions import Expr, Op, space_size
from phipsi.core.model import (
    ClosureSet,
    CompoundBody,
    CompoundPort,
    FlexibleInertia,
    Model,
    PointSet,
    packed_inertia,
    packed_port,
)
from phipsi.core.operators import (
    BodyFunction,
    Riccati,
    definition,
    definition_with_modes,
    family_of,
    inputs_of,
    own_rows,
    written_nodes,
)
from phipsi.core.rewrite import Identity
from phipsi.errors import InputError, ModelError
from phipsi.papers.proofs.digits import Digits, agree, long_decimals
from phipsi.papers.proofs.exact_array import NotRational
from phipsi.papers.proofs.exact_mechanism import ExactMechanism
from phipsi.papers.proofs.proof_state import FORCES, INVERSE_DYNAMICS, ProofState, drawing
from phipsi.papers.proofs.residues import field, random_prime
from phipsi.user_operators import Table

Array = NDArray[Any]

GOAL = 1e-14
_HOPELESS = 0.8  # a point that misses a false claim more often than this decides nothing
_SINGULAR = 3  # so many points at which something has no inverse, and it is singular everywhere


@dataclass(frozen=True)
class Verdict:
    """How one question was decided.

    `method` is "exact" (modulo random primes) or "50 digits"; `chance` bounds the probability that
    a false claim passes, over the primes and the values that were drawn: on each of the mechanisms
    that were tried, if they are several. It says nothing about others. `points` is how many random
    points were tried. `gap` is the largest difference of the sides, where numbers were compared.
    """

    holds: bool
    method: str
    chance: float
    points: int
    gap: float = float("nan")
    mechanisms: int = 1

    def __str__(self) -> str:
        if self.method != "exact":
            return self.method
        if not self.holds:
            return "exact, modulo a prime"
        where = "on each of them " if self.mechanisms > 1 else ""
        return (
            f"exact, modulo {self.points} {'prime' if self.points == 1 else 'primes'}; "
            f"{where}wrong with probability < {bound(self.chance)}"
        )


def bound(probability: float) -> str:
    """A probability rounded up to one digit."""
    if probability <= 0:
        return "1e-300"
    exponent = int(np.floor(np.log10(probability)))
    digit = int(np.ceil(probability / 10.0**exponent - 1e-9))
    return f"1e{exponent + 1:+03d}" if digit >= 10 else f"{digit}e{exponent:+03d}"


# ---- the two sides ------------------------------------------------------------------------------


def sides(identity: Identity, state: ProofState) -> tuple[Array, Array]:
    """Both sides of an identity in one state, or arrays that are equal if they are."""
    if identity.check is not None:
        if state.model.is_flexible:
            raise InputError(
                f"{identity.name!r} is checked with formulas for rigid bodies, but this mechanism "
                "has flexible bodies. Check it with rigid bodies:\n"
                "    pp.prove(…, model=model.with_rigid_bodies())"
            )
        claim = identity.check(state)
        return claim.lhs, claim.rhs
    lhs, rhs = identity.sides
    forces = forces_of(lhs, rhs)
    state = state if forces is None else state.with_forces(forces)
    terms = determinants(identity)
    if terms is not None and state.kind is not Digits:
        return _products(terms, state)
    right = state.applied(rhs)
    if not identity.sweeps:
        return state.applied(lhs), right
    left = [state.swept(lhs, identity.sweeps, how) for how in ("as_written", "full")]
    if lhs.is_vector and lhs.gives.index == "body":
        right = state.rigid_rows(right)
    return np.concatenate(left), np.concatenate([right, right])


@lru_cache(maxsize=2**12)
def forces_of(*sides: Expr) -> frozenset[str] | None:
    """Those of the forces f0 and f_ext that the sides name; None if they do not read tau.

    In a claim tau is the effort of the equations of motion in which these forces act.
    """
    names = frozenset(inputs_of(sides))
    return names & FORCES if "tau" in names else None


def determinants(identity: Identity) -> list[tuple[int, Expr]] | None:
    """The whole powers of determinants whose product is one, if it is about log det only."""
    if identity.lhs is None or identity.rhs is None:
        return None
    difference = identity.lhs - identity.rhs
    terms = difference.terms
    if difference.op is Op.ZERO or not all(x.op is Op.LOGDET for _, x in terms):
        return None
    powers = [(Fraction(c), x.args[0]) for c, x in terms]
    whole = int(np.lcm.reduce([c.denominator for c, _ in powers]))
    return [(int(c * whole), x) for c, x in powers]


def _products(terms: list[tuple[int, Expr]], state: ProofState) -> tuple[Array, Array]:
    out = [state.kind.of(1), state.kind.of(1)]
    for power, x in terms:
        det = state.determinant(x)
        if not np.asarray(det).all():
            raise np.linalg.LinAlgError(f"{x} is singular")
        out[power < 0] = out[power < 0] * _power(det, abs(power))
    return out[0], out[1]


def _power(x: Array, n: int) -> Any:
    """x to the n, by squares."""
    if n == 1:
        return x
    half = _power(x, n // 2)
    return half * half * x if n % 2 else half * half


# ---- modulo primes ------------------------------------------------------------------------------


def modular(
    identity: Identity,
    model: Model,
    states: Callable[[int], ProofState],
    bits: int,
    enough: float,
    least: int = 1,
) -> Verdict:
    """Points modulo primes until the claim is refuted, or wrong with a chance below `enough`.

    `states(i)` is the i-th point; at least `least` of them are tried. LinAlgError (singular
    everywhere) and NotRational are raised.
    """
    left, points, singular, i = 1.0, 0, 0, 0
    bits += _own_bits(identity) if bits else 0
    bits += _coefficient_bits(identity)
    while True:
        state = states(i)
        i += 1
        try:
            same = equal_sides(identity, state.fresh())
        except np.linalg.LinAlgError:
            singular += 1
            if singular >= _SINGULAR:
                raise
            continue
        points += 1
        if not same:
            return Verdict(False, "exact", 0.0, points)
        if points == 1:
            degree = _degree(identity, model, state.points)
        missed = chance(degree, bits, state.kind.prime)
        if missed > _HOPELESS:
            raise NotRational(f"its degree may be {degree}, too large for primes below 2³¹")
        left *= missed
        if left <= enough and points >= least:
            return Verdict(True, "exact", left, points)


def points_needed(identity: Identity, model: Model, points: PointSet) -> float:
    """How many points a proof takes on a mechanism; infinitely many if its degree is too large."""
    try:
        degree = _degree(identity, model, points)
    except NotRational:  # it is not decided modulo primes at all
        return 1.0
    missed = chance(degree, _coefficient_bits(identity), 2**30)
    return float("inf") if missed > _HOPELESS else float(np.log(GOAL) / np.log(missed))


def _degree(identity: Identity, model: Model, points: PointSet) -> int:
    degrees = Degrees(parts(model)[0], points)
    if identity.check is not None:
        return degrees.of_check(identity.rigid)
    terms = determinants(identity)
    return degrees.of_claim(*identity.sides) if terms is None else degrees.of_determinants(terms)


def equal_sides(identity: Identity, state: ProofState) -> bool:
    """Whether both sides are the same in one state, modulo its prime."""
    return equal(*sides(identity, state))


def equal(lhs: Any, rhs: Any) -> bool:
    """Whether two arrays of residues are the same."""
    return not np.asarray(lhs - rhs).any()


@lru_cache(maxsize=32)
def modular_state(
    model: Model, seed: int, i: int, own: bool, points: PointSet | None = None
) -> ProofState:
    """The i-th random point, with the model's own numbers or with random ones."""
    rng = np.random.default_rng((seed, i, int(own)))
    kind = field(random_prime(rng), seed)
    tree, closures = parts(model)
    mechanism = ExactMechanism(tree, kind, None if own else drawing(kind, rng))
    return ProofState(mechanism, (seed, i, int(own)), closures, points=points)


def parts(model: Model) -> tuple[Model, ClosureSet | None]:
    """The tree of a mechanism, and its loop closures if it has any."""
    return model.model, model.closures if model.n_rows else None


def bits_of(mechanism: Model, points: PointSet | None = None) -> int:
    """The size of the model's own numbers in bits, over a common power of two."""
    model, closures = parts(mechanism)
    points = points if closures is None else closures.points
    frames = [] if points is None else [points.rotation, points.offset]
    known = [x for x in model.flexible if x is not None]
    bodies = [x.numbers if isinstance(x, CompoundBody) else packed_inertia(x) for x in known]
    ports = [packed_port(y) for x in known if isinstance(x, FlexibleInertia) for y in x.ports]
    arrays = [
        *frames, *map(np.array, (*bodies, *ports)),
        model.inertia_matrices, model.armature, model.gravity,
        *(x.translation for x in model.placements), *(x.rotation for x in model.placements),
    ]  # fmt: skip
    return 53 + span_of(arrays)


def _own_bits(identity: Identity) -> int:
    """The size of the constants of custom operators and vectors in an identity, in bits."""
    tables = [row.value for row in own_rows(identity.expressions).values()]
    blocks = [x for t in tables if isinstance(t, Table) for x in t.blocks.values()]
    return 53 + span_of(blocks) if blocks else 0


def _coefficient_bits(identity: Identity) -> int:
    """The size of the largest coefficient that the sides are written with, in bits."""
    sums = (x.data for x in written_nodes(identity.expressions) if x.op is Op.SUM)
    numbers = [Fraction(c) for data in sums for c in data]
    sizes = (x.numerator.bit_length() + x.denominator.bit_length() - 2 for x in numbers)
    return max(sizes, default=0)


def span_of(arrays: list[Array]) -> int:
    """By how many powers of two the largest and the smallest number differ."""
    numbers = np.abs(np.concatenate([np.ravel(x) for x in arrays]))
    exponents = np.frexp(numbers[numbers > 0])[1]
    return int(exponents.max() - exponents.min()) if exponents.size else 0


# ---- fifty digits -------------------------------------------------------------------------------


def in_digits(
    identity: Identity,
    model: Model,
    seed: int,
    *,
    own: bool = True,
    given: Mapping[str, Any] | None = None,
    points: PointSet | None = None,
    change: Callable[[ProofState], ProofState] = lambda state: state,
) -> Verdict:
    """Compare the sides in fifty digits, in the given or a random state; `change` alters it."""
    with long_decimals():
        state = digits_state(model, seed, own=own, given=given, points=points)
        return compared(identity, change(state))


def compared(identity: Identity, state: ProofState) -> Verdict:
    """Compare the sides in one state in fifty digits; use it within `long_decimals`."""
    try:
        lhs, rhs = sides(identity, state)
    except TypeError as error:  # NotRational, or a number that is not a decimal
        raise InputError(
            f"identity {identity.name!r} cannot be evaluated in long decimals: {error}"
        ) from error
    holds, gap = agree(lhs, rhs)
    return Verdict(holds, "50 digits", 0.0, 1, gap)


def digits_state(
    model: Model,
    seed: int,
    *,
    own: bool = True,
    given: Mapping[str, Any] | None = None,
    points: PointSet | None = None,
) -> ProofState:
    """A state in long decimals; use it within `long_decimals`."""
    if not given:
        return _random_digits(model, seed, own, points).fresh()
    tree, closures = parts(model)
    return ProofState(ExactMechanism(tree, Digits), (seed, 0, 2), closures, given)


@lru_cache(maxsize=4)
def _random_digits(model: Model, seed: int, own: bool, points: PointSet | None) -> ProofState:
    rng = np.random.default_rng((seed, 0, 3))
    tree, closures = parts(model)
    mechanism = ExactMechanism(tree, Digits, None if own else drawing(Digits, rng))
    return ProofState(mechanism, (seed, 0, 2), closures, points=points)


# ---- degrees -------------------------------------------------------------------------------------


_PRIMES = 50_697_537  # between 2³⁰ and 2³¹
_BITS_PER_DEGREE = 2  # of coefficients: the entries of a rotation, of degree two, have norm four
_FACTORS = 12  # a check of the tables has no more factors than these, each at most as large as ψ
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
        loops = sum(x.degree for x in model.flexible if isinstance(x, CompoundBody))
        self._modal = 2 * model.is_flexible + loops  # M is of second degree in modes
        self._below = loops  # and rational where loops are embedded
        self._path = sum(turns)
        subtrees = [model.tree.subtree(k) for k in range(model.n_bodies)]
        self._determinants = sum(
            sum(model.joints[i].nv for i in bodies)
            * (4 * sum(turns[i] for i in bodies) + 6 + self._modal + self._below)
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
        if isinstance(x.function, BodyFunction):
            raise NotRational(f"the degree of the formula {x} is not known")
        return self._times(*x.args)

    def _times(self, *factors: Expr, also: Degree = _NONE) -> Degree:
        parts = [self.of(y) for y in factors]
        return Degree(
            also.top + sum(p.top for p in parts), also.bottom + sum(p.bottom for p in parts)
        )

    def _size(self, x: Expr) -> int:
        return space_size(x.takes, self._model, self._points)

    def _inverse(self, x: Expr) -> Degree:
        if x.op is Op.LEAF and x.row.riccati and x.name == "D":
            return self._riccati("D", family_of(x))  # a block of the inverse of a mass matrix
        top, bottom = self.of(x)
        return Degree(bottom + max(self._size(x) - 1, 0) * top, self._size(x) * top)

    def _leaf(self, x: Expr) -> Degree:
        if x.name == "tau":
            return self.of(INVERSE_DYNAMICS)
        meaning = definition(x) if x.name != "s_gauge" else None
        if self._modal and x.name in ("a", "b"):
            meaning = definition_with_modes(x)
        if meaning is not None:
            return self.of(meaning)
        if x.row.riccati:
            return self._riccati(x.name, family_of(x))
        if not x.args and "q" not in x.row.needs:
            return Degree(1 + self._modal, self._below)
        if x.name == "s_gauge":
            return Degree(4 * self._path + 6, 4 * self._path)
        once = Degree(self._path + 2 + self._modal, self._path + self._below)
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
            top, bottom = below + 4 * path + 6, below + 4 * path
        else:
            top, bottom = below + 6 * path + 12, below + 6 * path
        return Degree(top + 2 * self._modal, bottom + 2 * self._below)


def _turn(joint: Any) -> int:
    """The degree of the pose of a joint on its parent, and of its axes.

    A placement and a quaternion have degree two, an axis, which is a point of the sphere, two, the
    rotation about it six, and a coordinate one. A port that moves is turned by the quaternion
    (1, g), g of degree two in turns and modes, and then by its own: six, and a few for its shifts.
    """
    port: Any = getattr(joint, "port", None)
    ports = 14 if getattr(joint, "port_modes", 0) else 0
    ports = port.degree if isinstance(port, CompoundPort) else ports
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
