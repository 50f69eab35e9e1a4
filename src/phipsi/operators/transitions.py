"""Steps from every body to its parent, and transition operators (I − E)⁻¹ of such steps.

φ, ψ and their strict parts φ̃ = φ − I, ψ̃ have names. Any other step E has one as well, next to
memoryless factors, as in E_φ N, and (I − E)⁻¹ is its transition operator.
"""

from __future__ import annotations

from functools import lru_cache

from phipsi.expressions.kinds import Op
from phipsi.expressions.node import Expr, identity
from phipsi.expressions.structure import STRICTLY_CAUSAL, is_memoryless
from phipsi.operators.catalogue import CATALOGUE, E_phi, catalogue_leaf, definition, family_of, phi


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
