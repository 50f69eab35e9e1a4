"""Steps from every body to its parent, their transition operators (I − E)⁻¹, and recursions.

φ, ψ and their strict parts φ̃ = φ − I, ψ̃ have names. Any other step E has one as well, next to
memoryless factors, as in E_φ N, and (I − E)⁻¹ is its transition operator.

Operators given by a recursion over parents or children, X = F(X), are expressions that solve it:

    X = B + A X              (I − A)⁻¹ B            A strictly causal or strictly anticausal
    X = B + X C              B (I − C)⁻¹
    X = B + E₁ X E₂*         bd(T₁ B T₂*)           X and B memoryless, E₁ and E₂ steps
    X = B + bd(E₁* X E₂)     bd(T₁* B T₂)
    X = B + E (X − X h* (J + h X h*)⁻¹ h X) E*      P of the Riccati family of (h, E, B, J)

T = (I − E)⁻¹ is the transition operator of a step E. [88-11 Lemma A.1 and its dual; SOA eq. 0.25]
"""

from __future__ import annotations

from functools import lru_cache

from phipsi.core.expressions import (
    STRICTLY_ANTICAUSAL,
    STRICTLY_CAUSAL,
    Expr,
    Number,
    Op,
    block_diagonal,
    identity,
    is_anticausal,
    is_causal,
    is_memoryless,
    product,
    scaled,
    shown,
    total_of,
    zero,
)
from phipsi.core.operators.catalogue import (
    CATALOGUE,
    E_phi,
    Riccati,
    catalogue_leaf,
    definition,
    family_of,
    phi,
)
from phipsi.core.operators.inputs import leaves_of
from phipsi.errors import SpaceError


def is_step(x: Expr) -> bool:
    """True for a leaf that goes from every body to its parent, such as E_φ."""
    return x.op is Op.LEAF and x.row.step


@lru_cache(maxsize=2**14)
def is_one_step(x: Expr) -> bool:
    """True if x goes to the parent once, next to memoryless factors: E_φ, E_ψ, K, E_φ N."""
    if is_step(x) or x.structure != STRICTLY_CAUSAL:
        return is_step(x)
    meaning = definition(x)
    if meaning is not None:
        return is_one_step(meaning)
    if x.op is Op.SUM:
        return len(x.args) == 1 and is_one_step(x.args[0])
    moving = [y for y in x.factors if not is_memoryless(y.structure)]
    return x.op is Op.PRODUCT and len(moving) == 1 and is_one_step(moving[0])


@lru_cache(maxsize=2**14)
def _step_of(x: Expr) -> Expr | None:
    """E of (I − E)⁻¹ with a step E."""
    if x.op is Op.LEAF:
        if x.row.transition:
            return family_of(x).E_psi if x.row.riccati else E_phi
        meaning = definition(x)
        return None if meaning is None else _step_of(meaning)
    if x.op is not Op.INVERSE or x.takes is not x.gives:
        return None
    step = identity(x.takes) - x.args[0]
    return step if is_one_step(step) else None


def is_transition(x: Expr) -> bool:
    """True for φ, ψ and the like: (I − E)⁻¹ of a step E."""
    return _step_of(x) is not None


def transition_step(x: Expr) -> Expr:
    """The one-step operator E of a transition operator (I − E)⁻¹: E_φ of φ, E_ψ of ψ."""
    step = _step_of(x)
    assert step is not None
    return step


def transition_with(step: Expr) -> Expr | None:
    """The transition operator (I − E)⁻¹ of a one-step operator E; None if it is no such step."""
    if step is E_phi:
        return phi
    family = family_of(step) if step.op is Op.LEAF and step.row.riccati else None
    if family is not None and step is family.E_psi:
        return family.psi
    return (identity(step.takes) - step).inv if is_one_step(step) else None


def strict_transition(x: Expr) -> Expr:
    """T − I of a transition operator T: φ̃ of φ, ψ̃ of ψ, T E of others."""
    if x.op is Op.LEAF and x.row.transition:
        return _relative(x, x.row.transition)
    return x @ transition_step(x)


def plain_transition(x: Expr) -> Expr | None:
    """T for T and its strict part where that is a leaf: φ for φ and φ̃; None for anything else."""
    if is_transition(x):
        return x
    return _relative(x, _PLAIN[x.name]) if x.name in _PLAIN else None


_PLAIN = {row.transition: name for name, row in CATALOGUE.items() if row.transition}


def _relative(x: Expr, name: str) -> Expr:
    """Another leaf of the family that x belongs to."""
    return family_of(x).leaf(name) if x.row.riccati else catalogue_leaf(name)


# ---- recursions ----------------------------------------------------------------------------------


_MOST_TERMS = 64
Factors = tuple[Expr, ...]
Terms = list[tuple[Number, Factors]]
Ends = tuple[Expr, Expr]


def solution(X: Expr, right: Expr) -> Expr:
    """The expression X that solves X = right, a `SpaceError` if it is not of a known form."""
    free, bound = _split(X, right)
    if not bound:
        raise SpaceError(
            f"{X} does not occur on the right side of  {X} = {shown(right)}.\n"
            f"Pass the expression itself as the block of {X}"
        )
    found = _riccati(X, free, bound) or _linear(X, free, bound)
    if found is None:
        raise SpaceError(_no_form(X, right))
    return found


def _split(X: Expr, right: Expr) -> tuple[Expr, Terms]:
    """The sum of the terms without X, and the products with it."""
    free: list[tuple[Number, Expr]] = []
    bound: Terms = []
    for c, factors in _terms(X, right):
        if any(_has(X, y) for y in factors):
            bound.append((c, factors))
        else:
            free.append((c, product(factors)))
    return total_of([(0, zero(X.takes, X.gives)), *free]), bound


def _has(X: Expr, y: Expr) -> bool:
    return X in leaves_of(y)


def _terms(X: Expr, x: Expr) -> Terms:
    """x multiplied out as far as X is concerned."""
    out: Terms = []
    for c, term in x.terms:
        partial: Terms = [(c, ())]
        for y in _unscaled(X, term.factors):
            parts = _terms(X, y) if y.op is Op.SUM and _has(X, y) else [(1, (y,))]
            partial = [(a * d, fs + gs) for a, fs in partial for d, gs in parts]
            if len(partial) > _MOST_TERMS:
                raise SpaceError(f"the equation of {X} has more than {_MOST_TERMS} products")
        out += partial
    return out


def _unscaled(X: Expr, factors: Factors) -> Factors:
    """Factors in which a number times X, or a vector X times a number, is s I times X."""
    out: list[Expr] = []
    for i, y in enumerate(factors):
        numbers = factors[i + 1 :]
        if y is X and X.is_vector and numbers and all(z.is_scalar for z in numbers):
            return (*out, scaled(product(numbers), identity(X.gives)), X)
        if y.function is scaled and _has(X, y.args[1]):
            s, inner = y.args
            out += [scaled(s, identity(inner.gives)), *_unscaled(X, inner.factors)]
        else:
            out.append(y)
    return tuple(out)


def _linear(X: Expr, free: Expr, bound: Terms) -> Expr | None:
    lefts: list[tuple[Number, Expr]] = []
    rights: list[tuple[Number, Expr]] = []
    both: list[tuple[Number, Ends, bool]] = []
    for c, factors in bound:
        ends = _ends(X, factors)
        if ends is None:
            return None
        left, right, diagonal = ends
        if left is not None and right is not None:
            both.append((c, (left, right), diagonal))
        elif left is not None:
            lefts.append((c, left))
        elif right is not None:
            rights.append((c, right))
        else:
            return None
    if bool(lefts) + bool(rights) + bool(both) != 1 or len(both) > 1:
        return None
    if both:
        c, ends, diagonal = both[0]
        return _two_sided(free, c, ends, diagonal)
    step = total_of(lefts or rights)
    if step.structure not in (STRICTLY_CAUSAL, STRICTLY_ANTICAUSAL):
        return None
    whole = _transition(step)
    return whole @ free if lefts else free @ whole


def _ends(X: Expr, factors: Factors) -> tuple[Expr | None, Expr | None, bool] | None:
    """A and C of A X C, or of bd(A X C); None if X stands elsewhere, or twice."""
    diagonal = len(factors) == 1 and factors[0].op is Op.BD
    inner = _unscaled(X, factors[0].args[0].factors if diagonal else factors)
    places = [i for i, y in enumerate(inner) if _has(X, y)]
    if len(places) != 1 or inner[places[0]] is not X:
        return None
    i = places[0]
    left, right = inner[:i], inner[i + 1 :]
    return product(left) if left else None, product(right) if right else None, diagonal


def _two_sided(free: Expr, c: Number, ends: Ends, diagonal: bool) -> Expr | None:
    """bd(T₁ B T₂*) or bd(T₁* B T₂)."""
    left, right = ends
    inward = is_one_step(left) and is_one_step(right.T)
    outward = diagonal and is_one_step(left.T) and is_one_step(right)
    if not (inward or outward) or not is_memoryless(free.structure):
        return None
    first = c * left
    return block_diagonal(_transition(first) @ free @ _transition(right))


def _transition(step: Expr) -> Expr:
    """(I − A)⁻¹, by its name if it has one."""
    if is_causal(step.structure):
        named = transition_with(step)
    else:
        named = transition_with(step.T)
        named = None if named is None else named.T
    return (identity(step.takes) - step).inv if named is None else named


def _riccati(X: Expr, free: Expr, bound: Terms) -> Expr | None:
    """P, if the two terms with X are E X E* and −E X h* (J + h X h*)⁻¹ h X E*."""
    if len(bound) != 2:
        return None
    (c, plain), (d, other) = sorted(bound, key=lambda term: len(term[1]))
    ends = _ends(X, plain)
    if ends is None or (c, d) != (1, -1) or ends[0] is None or ends[1] is not ends[0].T:
        return None
    E, n = ends[0], len(ends[0].factors)
    middle = other[n : len(other) - n]
    if other[:n] != plain[:n] or other[len(other) - n :] != plain[n + 1 :]:
        return None
    at = [i for i, y in enumerate(middle) if y.op is Op.INVERSE and _has(X, y)]
    if len(at) != 1 or len(middle) < 5 or middle[0] is not X or middle[-1] is not X:
        return None
    h, gap = product(middle[at[0] + 1 : -1]), middle[at[0]].args[0]
    if product(middle[1 : at[0]]) is not h.T:
        return None
    weight = gap - h @ X @ h.T
    return None if _has(X, weight) else Riccati(h, E, free, weight).P


def check_structure(X: Expr, found: Expr) -> None:
    """Reject a solution that reaches further than is declared."""
    fits = found.structure | X.structure == X.structure
    if not fits:
        way = "causal" if is_causal(found.structure) else "general"
        way = "anticausal" if is_anticausal(found.structure) and way != "causal" else way
        raise SpaceError(
            f"the recursion of {X} solves to\n    {shown(found)}\nwhich is {way}. Declare it: "
            f'structure="{way}"'
        )


def _no_form(X: Expr, right: Expr) -> str:
    return (
        f"no solution is known for the recursion  {X} = {shown(right)}\n"
        f"Known are  {X} = B + A {X}  and  B + {X} C  with A, C strictly causal or strictly\n"
        f"anticausal;  B + E {X} E*  and  B + bd(E* {X} E)  with a step E to the parent, such as\n"
        f"E_φ, and memoryless B;  and  B + E ({X} − {X} H* (J + H {X} H*)⁻¹ H {X}) E*"
    )
