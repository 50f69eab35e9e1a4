"""Forward dynamics of closed chains as the papers write it, on one forest with constraint rows.

With T = tau − H φ (M φ* (a + gravity) + w), w = b − f_ext, the multipliers f and accelerations of

    ℳ v̇ + J* A* f = T,    A J v̇ = U

in the forms of the papers. Primary and secondary systems, or arms and the object they hold, are
trees of the same forest: ℳ, J and Λ are block diagonal between them, and A = A[P] + A[S].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from phipsi.expressions.node import Expr
from phipsi.operators import (
    A,
    Adot,
    B,
    D,
    D_half,
    H,
    I,
    J,
    K,
    Lambda,
    M,
    U,
    Udot,
    V,
    a,
    b,
    f_ext,
    gravity,
    mass_matrix,
    phi,
    psi,
    tau,
    v,
)

Pair = tuple[Expr, Expr]

WHITEN = I - H @ psi @ K
ROW_MATRIX = A @ Lambda @ A.T
PAPER_MATRIX = A @ B.T @ psi.T @ H.T @ D.inv @ H @ psi @ B @ A.T  # the same, by step C
ROW_DRIFT = Adot @ B.T @ V + A @ B.T @ phi.T @ a  # −U where nothing is prescribed
IMPULSE = ROW_MATRIX.inv @ (A @ J @ v - Udot)


def _free_load(w: Expr) -> Expr:
    return tau - H @ phi @ (M @ phi.T @ (a + gravity) + w)


@cache
def free_form(external: bool) -> Expr:
    """v̇ of the tree, as if there were no constraints."""
    return mass_matrix.inv @ _free_load(b - f_ext if external else b)


def _closed(w: Expr, prescribed: bool) -> Pair:
    """(v̇, f), with the constraint load inside the last pair of sweeps."""
    point = B.T @ phi.T @ H.T @ mass_matrix.inv @ _free_load(w) + B.T @ phi.T @ a
    gap = A @ point + Adot @ B.T @ V
    f = ROW_MATRIX.inv @ (gap - Udot if prescribed else gap)
    return mass_matrix.inv @ _free_load(w + B @ A.T @ f), f


def _steps_a_to_f(w: Expr, prescribed: bool) -> Pair:
    """Steps A to F of SOA, one after the other."""
    free = WHITEN.T @ D.inv @ WHITEN @ _free_load(w)
    f = PAPER_MATRIX.inv @ (A @ J @ free - _wanted(prescribed))
    return free - WHITEN.T @ D.inv @ H @ psi @ B @ A.T @ f, f


def _projection(w: Expr, prescribed: bool) -> Pair:
    """Eq. 0.37: the innovations that the constraints allow, and those that U asks for."""
    half = D_half.inv @ H @ psi @ B @ A.T
    gram = half.T @ half
    innovations = D_half.inv @ WHITEN @ _free_load(w)
    f = gram.inv @ (half.T @ innovations - _wanted(prescribed))
    return WHITEN.T @ D_half.inv.T @ (innovations - half @ f), f


def _rccfd1(w: Expr, prescribed: bool) -> Pair:
    free = WHITEN.T @ D.inv @ WHITEN @ _free_load(w)
    point = B.T @ phi.T @ (H.T @ free + a)
    gap = A @ point + Adot @ B.T @ V
    f = PAPER_MATRIX.inv @ (gap - Udot if prescribed else gap)
    return free - WHITEN.T @ D.inv @ H @ psi @ B @ A.T @ f, f


def _rccfd2(w: Expr, prescribed: bool) -> Pair:
    """Never forms the accelerations of the free system."""
    load = _free_load(w)
    point = B.T @ psi.T @ H.T @ D.inv @ WHITEN @ load
    f = PAPER_MATRIX.inv @ (A @ point - _wanted(prescribed))
    return WHITEN.T @ D.inv @ (load - H @ psi @ (K @ load + B @ A.T @ f)), f


def _rccfd3(w: Expr, prescribed: bool) -> Pair:
    """Accelerations as the sum of those of the load and those that U asks for."""
    whitened = WHITEN @ _free_load(w)
    reach = H @ psi @ B @ A.T
    inside = D.inv - D.inv @ reach @ PAPER_MATRIX.inv @ reach.T @ D.inv
    wanted = _wanted(prescribed)
    first = WHITEN.T @ inside @ whitened
    second = WHITEN.T @ D.inv @ reach @ PAPER_MATRIX.inv @ wanted
    f = PAPER_MATRIX.inv @ (reach.T @ D.inv @ whitened - wanted)
    return first + second, f


def _wanted(prescribed: bool) -> Expr:
    """U, with Udot as an input or zero."""
    return U if prescribed else -ROW_DRIFT


FORMS: dict[str, Callable[[Expr, bool], Pair]] = {
    "A-F": _steps_a_to_f,
    "0.37": _projection,
    "RCCFD1": _rccfd1,
    "RCCFD2": _rccfd2,
    "RCCFD3": _rccfd3,
}


@cache
def closed_form(name: str | None, external: bool, prescribed: bool) -> Pair:
    """(v̇, f) of a form, None being the one that is rewritten freely.

    `external`: with forces f_ext on the bodies; `prescribed`: with Udot as an input.
    """
    w = b - f_ext if external else b
    return (_closed if name is None else FORMS[name])(w, prescribed)
