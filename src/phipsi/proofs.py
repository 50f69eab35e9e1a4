"""Proofs: evaluate both sides of an identity on a mechanism and compare.

A proof here is numerical: random states of the given mechanism, dense linear algebra, and the
comparison |before − after| ≤ 1e-9 · scale, where the scale is the sum over the terms of the product
of the factors' norms.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.backends.dense import dense
from phipsi.backends.dense_evaluate import Evaluation
from phipsi.backends.dense_inputs import check_expression
from phipsi.errors import (
    InputError,
    PhipsiError,
    SingularHingeError,
    SingularMatrixError,
    did_you_mean,
)
from phipsi.expressions.node import Expr
from phipsi.model import Model
from phipsi.model.points import PointSet, point_set
from phipsi.operators import parse
from phipsi.rewrite.identities import RULES
from phipsi.rewrite.identity import Claim, Identity, unmet
from phipsi.rewrite.theorems_symbols import any_motion

Array = NDArray[Any]

TOLERANCE = 1e-9
_POINTS = 3
_ARGUMENTS = ("q", "v", "vdot", "tau", "f_ext", "f0", "free")


@dataclass(frozen=True)
class Proof:
    """The outcome of `prove`.

    `holds` is None if the mechanism does not meet the identity's condition; `reason` then says why.
    `error` is the largest difference between the two sides and `tolerance` what was allowed.
    """

    identity: Identity
    holds: bool | None
    error: float
    tolerance: float
    reason: str

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
    from phipsi.rewrite.theorems import THEOREMS  # some 300 expressions to read: only on use

    rules = {rule.name for rule in RULES}
    return [*RULES, *(theorem for theorem in THEOREMS if theorem.name not in rules)]


def identity_named(name: str) -> Identity:
    """The identity with this name; an error with close matches if there is none."""
    known = {identity.name: identity for identity in identities()}
    if name not in known:
        raise InputError(f"there is no identity {name!r}. {did_you_mean(name, known)}")
    return known[name]


def prove(
    identity: Identity | str,
    model: Model,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    *,
    seed: int = 0,
) -> Proof:
    """Check an identity on a mechanism.

    **Arguments:** `identity`, or its name; `q` (nq,) and `v` (nv,), random from the seed if not
    given; accelerations, forces and points are always random from the seed.
    **Returns:** a `Proof`, true if the identity holds. A mechanism with a hinge that has nothing to
    move is a `SingularHingeError` for the identities that invert its inertia. **Cost:** O(N³).
    """
    if isinstance(identity, str):
        identity = identity_named(identity)
    if not isinstance(cast(object, model), Model):
        raise InputError(
            f"prove needs an identity, then a model: pp.prove(identity, model), not "
            f"{type(model).__name__}; of a system, its tree:  system.model"
        )
    why = unmet(identity.condition, model)
    if why:
        return Proof(identity, None, float("nan"), float("nan"), why)
    state = _state(model, seed) if q is None and v is None else State(model, q, v, seed)
    try:
        claim = claim_of(identity, state.fresh())
    except np.linalg.LinAlgError as error:  # of a recursion that a check writes out by itself
        raise _singular(identity, state) from error
    return _compared(identity, claim)


def _singular(identity: Identity, state: State) -> PhipsiError:
    """What cannot be inverted: the hinge by name if there is one."""
    try:
        state.dense(_HINGE_INERTIA)
    except SingularHingeError as error:
        return error
    return SingularMatrixError(
        f"identity {identity.name!r} inverts a matrix that is singular in this state. Try another "
        "one:  prove(identity, model, seed=1)"
    )


def claim_of(identity: Identity, state: State) -> Claim:
    """Both sides of an identity in one state."""
    if identity.check is not None:
        return identity.check(state)
    before, after = identity.before, identity.after
    if before is None or after is None:
        raise InputError(f"identity {identity.name!r} has neither two sides nor a check")
    scale = state.scale(before) + state.scale(after)
    return Claim(state.dense(before), state.dense(after), scale)


def _compared(identity: Identity, claim: Claim) -> Proof:
    gap = np.abs(np.asarray(claim.lhs) - np.asarray(claim.rhs))
    error = float(gap.max()) if gap.size else 0.0
    tolerance = TOLERANCE * claim.scale
    holds = bool(error <= tolerance)  # False for NaN
    word = "at most" if holds else "more than"
    reason = f"the sides differ by {error:.2g}, {word} {tolerance:.2g} (1e-9 of the numbers in it)"
    return Proof(identity, holds, error, tolerance, reason)


# ---- the state of a proof ----------------------------------------------------------------------


class State:
    """One mechanism in one state; the `Case` of a check.

    Given vdot and f0 the efforts tau are those of the equations of motion. The forces f_ext are
    random too, and not in these equations.
    """

    def __init__(self, model: Model, q: ArrayLike | None, v: ArrayLike | None, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.model, self._seed = model, seed
        self.rng = np.random.default_rng(seed)
        self.q = np.asarray(model.random_configuration(rng) if q is None else q, np.float64)
        drawn = rng.normal(size=model.nv)
        self.v = drawn if v is None else np.asarray(v, np.float64)
        if self.q.ndim != 1 or self.v.ndim != 1:
            raise InputError("a proof is about one state: q has shape (nq,) and v has shape (nv,)")
        self.vdot = rng.normal(size=model.nv)
        hosts = rng.integers(model.n_bodies, size=_POINTS) if model.n_bodies else []
        named = [(model.body_names[k], rng.uniform(-0.5, 0.5, 3)) for k in hosts]
        self.points: PointSet = point_set(model, named)
        self.f0 = rng.normal(size=(len(named), 6))
        self.f_ext = rng.normal(size=(model.n_bodies, 6))
        self.free = rng.integers(2, size=model.nv).astype(float)
        self._free = {any_motion: rng.normal(size=(model.n_bodies, 6))}
        self.tau = np.zeros(model.nv)
        self.tau = dense(_INVERSE_DYNAMICS, model, **self._inputs())
        arguments = {name: getattr(self, name) for name in _ARGUMENTS}
        self._values = Evaluation(
            model, self.points, arguments, dict(self._free), np.dtype(np.float64)
        )

    def fresh(self) -> State:
        """This state with new random numbers, the same for every proof."""
        again = copy(self)
        again.rng = np.random.default_rng((self._seed, 1))
        return again

    def _inputs(self) -> dict[str, Any]:
        named = {name: getattr(self, name) for name in (*_ARGUMENTS, "points")}
        return named | {"given": self._free}

    def dense(self, expr: Expr, **changes: Any) -> Array:
        """The value of an expression; keywords of `dense` replace parts of the state."""
        if changes:
            return dense(expr, self.model, **(self._inputs() | changes))
        check_expression(expr)
        value = self._values.value(expr)
        if expr.is_vector and expr.gives is not None and expr.gives.name == "poses":
            return value.reshape(-1, 4, 4)
        return value[:, 0] if expr.is_vector else value

    def scale(self, expr: Expr) -> float:
        """The scale of an expression in this state."""
        return self._values.scale(expr)


_HINGE_INERTIA = parse("D")
_INVERSE_DYNAMICS = parse("mass_matrix vdot + H phi (M phi* (a + gravity) + b + B f0)")


@lru_cache(maxsize=4)
def _state(model: Model, seed: int) -> State:
    return State(model, None, None, seed)
