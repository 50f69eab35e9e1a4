"""`prove`: an identity on a mechanism, in general and with the mechanism's own numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.backends.dense import dense
from phipsi.backends.dense.given_values import collect
from phipsi.errors import (
    InputError,
    PhipsiError,
    SingularHingeError,
    SingularMatrixError,
    SpaceError,
    did_you_mean,
)
from phipsi.expressions.check import signature
from phipsi.expressions.kinds import Op
from phipsi.expressions.node import Expr, zero
from phipsi.expressions.node import identity as identity_of
from phipsi.expressions.spaces import UNKNOWN
from phipsi.model import Model
from phipsi.model.mechanisms import of_mechanisms
from phipsi.model.points import ANY_POINTS
from phipsi.operators import parse
from phipsi.operators.inputs import leaves_of
from phipsi.proofs.decide import GOAL, Verdict, bits_of, in_digits, modular, modular_state, parts
from phipsi.proofs.exact_array import NotRational
from phipsi.rewrite.identities import RULES
from phipsi.rewrite.identity import Identity, unmet

Array = NDArray[Any]

_POSE, _HINGE_INERTIA = parse("pose"), parse("D")
_DECIMAL = re.compile(  # not in a name, and no exponent of an operator
    r"(?<![\w.^])(?:\d+\.\d*|\.\d+|\d+(?=[eE][+-]?\d))(?:[eE][+-]?\d{1,3})?(?![\w.])"
)


@dataclass(frozen=True)
class Proof:
    """The outcome of `prove`.

    `in_general` says whether the identity holds on this tree whatever its numbers are, `here`
    whether it holds for this model: with its own numbers, in every state, or in the state that was
    given. `holds` is that of `here`; it is None if the mechanism does not meet the identity's
    condition. `reason` says all of it in words.
    """

    identity: Identity
    holds: bool | None
    reason: str
    in_general: Verdict | None = None
    here: Verdict | None = None

    def __bool__(self) -> bool:
        return self.holds is True

    def __str__(self) -> str:
        word = {True: "holds", False: "fails", None: "does not apply"}[self.holds]
        return f"{self.identity.name} {word}: {self.reason}"


def identities() -> list[Identity]:
    """All identities the library knows: the rewriter's rules, then the papers' other theorems.

    >>> len(identities()) > 250
    True
    """
    return [*RULES, *(theorem for theorem in _book() if not theorem.rule)]


def _book() -> tuple[Identity, ...]:
    from phipsi.theorems.book import THEOREMS  # some 300 expressions to read: only on use

    return THEOREMS


def identity_named(name: str) -> Identity:
    """The identity with this name, or an error with close matches."""
    known = {identity.name: identity for identity in (*_book(), *RULES)}
    if name not in known:
        raise InputError(
            f"there is no identity {name!r}. {did_you_mean(name, known)} A claim of your own has "
            f'two sides:  pp.prove("phi - psi = psi K H phi", model)'
        )
    return known[name]


@of_mechanisms
def prove(
    identity: Identity | str,
    model: Model,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    *,
    seed: int = 0,
) -> Proof:
    """Decide whether an identity holds on a mechanism.

    **Arguments:** `identity`, its name, or a claim as text, ``"H φ K H ψ = H φ − H ψ"``, whose
    decimals are exact; `model`, or a system for claims about its rows A; `q` (nq,) and `v` (nv,),
    if it is to be decided in this state only. Everything that is not given is random, from the
    seed, and loops are open.
    **Returns:** a `Proof`, true if the identity holds for this model. It answers two questions:
    does it hold on this tree with any numbers, and with this model's own; both without a tolerance,
    modulo random primes, and wrong with a probability below 1e-14. Angles that are given and square
    roots are not rational: there the sides are compared in fifty digits, and the answer says so. A
    mechanism with a hinge that has nothing to move is a `SingularHingeError` for the identities
    that invert its inertia. **Cost:** O(N³).

    >>> import phipsi as pp
    >>> arm = pp.examples.seven_joint_arm()
    >>> bool(pp.prove("H φ K H ψ = H φ − H ψ", arm))
    True
    >>> bool(pp.prove("H φ K H ψ = H φ − H ψ + 1e-18 H φ", arm))
    False
    """
    if isinstance(identity, str):
        identity = _found(identity)
    if not isinstance(cast(object, model), Model):
        raise InputError(
            f"prove needs an identity, then a model: pp.prove(identity, model), not "
            f"{type(model).__name__}"
        )
    if not _about_rows(identity):
        model = parts(model)[0]
    why = unmet(identity.condition, parts(model)[0])
    if why:
        return Proof(identity, None, why)
    given = None if q is None and v is None else _state_given(parts(model)[0], q, v)
    try:
        return _decided(identity, model, seed, given)
    except np.linalg.LinAlgError as error:
        raise _singular(identity, model, seed) from error


def _decided(
    identity: Identity,
    model: Model,
    seed: int,
    given: dict[str, Array] | None,
) -> Proof:
    general, here = _in_general(identity, model, seed), None
    if given is not None:
        here = in_digits(identity, model, seed, q=given.get("q"), v=given.get("v"))
        return Proof(identity, here.holds, _words(general, here, "in this state"), general, here)
    if general.method != "exact":
        here = in_digits(identity, model, seed)
    else:
        # an identity of all numbers holds for these, unless a matrix has no inverse with them:
        # one point shows that
        here = _with_own_numbers(identity, model, seed, 1.0 if general.holds else GOAL)
        if here.holds and general.holds:
            here = general
        elif not here.holds:
            here = replace(here, gap=_gap(identity, model, seed))
    reason = _words(general, here, "with this model's own numbers")
    return Proof(identity, here.holds, reason, general, here)


def _with_own_numbers(identity: Identity, model: Model, seed: int, enough: float) -> Verdict:
    states = partial(modular_state, model, seed, own=True)
    bits = 0 if enough == 1.0 else bits_of(model)
    try:
        return modular(identity, model, lambda i: states(i), bits, enough)
    except NotRational:
        return in_digits(identity, model, seed)


def _in_general(identity: Identity, model: Model, seed: int) -> Verdict:
    states = partial(modular_state, model, seed, own=False)
    try:
        return modular(identity, model, lambda i: states(i), 0, GOAL)
    except NotRational:
        return in_digits(identity, model, seed, own=False)


def _words(general: Verdict, here: Verdict, where: str) -> str:
    if here.holds and general.holds:
        if here is general:
            return f"on this tree with any numbers ({general})"
        return f"on this tree with any numbers ({general}), and {where} ({here})"
    if here.holds:
        return f"{where} ({here}), but not on this tree with other numbers"
    by = f" by {here.gap:.2g}" if here.gap > 0 else ""
    also = f"; with other numbers it holds on this tree ({general})" if general.holds else ""
    return f"the sides differ{by} {where} ({here}){also}"


def _gap(identity: Identity, model: Model, seed: int) -> float:
    """How far the two sides are apart in one random state, in floating point; for the reader."""
    if identity.before is None or identity.after is None:
        return float("nan")
    rng, (tree, closures) = np.random.default_rng(seed), parts(model)
    n, nv = tree.n_bodies, tree.nv
    hosts = rng.integers(n, size=3) if n else []
    points: Any = [(tree.body_names[k], rng.uniform(-0.5, 0.5, 3)) for k in hosts]
    if closures is not None:
        points = closures.points
    inputs: dict[str, Any] = {name: rng.normal(size=nv) for name in ("v", "vdot", "tau")}
    inputs |= {"f_ext": rng.normal(size=(n, 6)), "f0": rng.normal(size=(len(points), 6))}
    inputs |= {"q": tree.random_configuration(rng), "free": np.ones(nv)}
    inputs |= {"points": points} if closures is None else {"Udot": rng.normal(size=closures.n_rows)}
    try:
        gap = np.abs(dense(identity.before - identity.after, model, **inputs))
    except (PhipsiError, np.linalg.LinAlgError):
        return float("nan")
    return float(gap.max(initial=0.0))


# ---- claims and states ---------------------------------------------------------------------------


def _found(text: str) -> Identity:
    """An identity by its name, or a claim as text."""
    if "=" not in text or any(text == identity.name for identity in (*RULES, *_book())):
        return identity_named(text)
    sides = text.split("=")
    if len(sides) != 2:
        raise InputError(f"a claim has one equals sign, and there are {len(sides) - 1} in {text!r}")
    before, after = (parse(_with_fractions(side.strip())) for side in sides)
    before, after = _same_spaces(before, after), _same_spaces(after, before)
    if (before.takes, before.gives) != (after.takes, after.gives):
        raise SpaceError(
            f"the two sides of a claim are between the same spaces, but here they are\n"
            f"    {before} : {signature(before)}\n    {after} : {signature(after)}"
        )
    return Identity(text, before, after, statement=text, source="given as text")


def _same_spaces(x: Expr, other: Expr) -> Expr:
    """A lone I or 0 is the one between the spaces of the other side."""
    if x.takes is not UNKNOWN or other.takes is UNKNOWN:
        return x
    if x is identity_of():
        return identity_of(other.takes)
    return zero(other.takes, other.gives) if x.op is Op.ZERO else x


def _with_fractions(text: str) -> str:
    """Decimals as fractions, outside of brackets: 0.1 is a tenth, and 1 + 1e-18 is not 1."""
    parts = re.split(r"(\[[^\]]*\])", text)
    return "".join(
        part if part.startswith("[") else _DECIMAL.sub(_as_fraction, part) for part in parts
    )


def _as_fraction(match: re.Match[str]) -> str:
    exact = Fraction(match.group())
    return f"{exact.numerator}/{exact.denominator}"


def _state_given(model: Model, q: ArrayLike | None, v: ArrayLike | None) -> dict[str, Array]:
    """Checked q and v, for one state."""
    inputs = collect(model, ANY_POINTS, {"q": q, "v": v}, None)
    if inputs.batch:
        raise InputError("a proof is about one state: q has shape (nq,) and v has shape (nv,)")
    if any(np.iscomplexobj(x) for x in inputs.arguments.values()):
        raise InputError("a proof is about real numbers, but q or v is complex")
    if q is not None:
        dense(_POSE, model, q=q)  # rejects arrays that are not configurations
    return inputs.arguments


def _about_rows(identity: Identity) -> bool:
    """Whether a claim is about constraint rows; all others are about the tree."""
    sides = [x for x in (identity.before, identity.after) if x is not None]
    leaves = [leaf for side in sides for leaf in leaves_of(side)]
    spaces = [space for x in leaves for space in (x.takes, x.gives) if space is not None]
    return any(x.index == "row" for x in spaces) or any(x.name == "select" for x in leaves)


def _singular(identity: Identity, model: Model, seed: int) -> PhipsiError:
    """The error for a singular matrix, with the name of the hinge if it is one."""
    try:
        tree = parts(model)[0]
        dense(_HINGE_INERTIA, tree, q=tree.random_configuration(seed))
    except SingularHingeError as error:
        return error
    return SingularMatrixError(
        f"identity {identity.name!r} inverts a matrix that is singular on this mechanism"
    )
