"""What a and b stand for if bodies have modes, and which derivatives know modes.

    a = rigid_cross(V) H* v + Ė{H* v}* V + c_J
    b = Ṁ{V} V − ½ dM{V}* V − rigid_cross(V)* M V + modal_rows (K_e η + C_e v)

The first is d/dt of V = E_φ* V + H* v at v̇ = 0. The second is Boltzmann and Hamel's equation of a
body whose M depends on η, and its elastic forces. Without modes both are what the catalogue says.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from phipsi.core.expressions import OF_MODES, OF_RIGID_BODIES, Expr, Op, rigid_cross
from phipsi.core.operators.catalogue import (
    INERTIA,
    STEP,
    H,
    M,
    V,
    catalogue_leaf,
    change_of,
    definition,
    v,
    with_arguments,
)
from phipsi.core.operators.inputs import needs_of, nodes_of

_HALF = Fraction(1, 2)
_OF_MODES = frozenset((*INERTIA[:2], INERTIA.twice, *STEP[:3], "modal_rows"))


def _bias() -> Expr:
    own = H.T @ v
    return rigid_cross(V) @ own + change_of(STEP, own).T @ V + catalogue_leaf("c_J")


def _gyroscopic() -> Expr:
    inertial = change_of(INERTIA, V) @ V - _HALF * (with_arguments(INERTIA.applied, V).T @ V)
    K, C, eta, rows = map(catalogue_leaf, ("K_e", "C_e", "eta", "modal_rows"))
    return inertial - rigid_cross(V).T @ M @ V + rows @ (K @ eta + C @ v)


_MEANINGS = {"a": _bias, "b": _gyroscopic}


@lru_cache(maxsize=2**14)
def definition_with_modes(x: Expr) -> Expr | None:
    """The expression a leaf stands for if bodies may have modes; None if it is primitive."""
    if x.op is Op.LEAF and x.name in _MEANINGS:
        return _MEANINGS[x.name]()
    return definition(x)


def knows_modes(x: Expr) -> bool:
    """Whether x has a part that only derivatives with modes have."""
    return any(
        y.function in OF_MODES or (y.op is Op.LEAF and y.name in _OF_MODES) for y in _parts(x)
    )


def is_about_modes(x: Expr) -> bool:
    """Whether x has a part that says something of bodies with modes only."""
    return knows_modes(x) or any(y.op is Op.LEAF and y.row.modal for y in _parts(x))


def is_of_rigid_bodies(x: Expr) -> bool:
    """Whether x has a part that derivatives with modes do not have, such as cross(…)."""
    return any(y.function in OF_RIGID_BODIES for y in _parts(x))


def depends_on_modes(x: Expr) -> bool:
    """Whether x depends on the inertia of bodies, or on what moves them, which modes change."""
    return not needs_of(x).isdisjoint(("inertia", "q"))


_parts = lru_cache(maxsize=2**10)(nodes_of)
