"""The equations of motion as the papers write them, of trees and with constraint rows.

With the body forces w = b − f_ext + B f0 and T = tau − H φ (M φ* (a + gravity) + w), a tree moves
as ℳ v̇ = T. With constraints the multipliers f and accelerations are those of

    ℳ v̇ + J* A* f = T,    A J v̇ = U

in the forms of the papers. Primary and secondary systems, or arms and the object they hold, are
trees of the same forest: ℳ, J and Λ are block diagonal between them, and A = A[P] + A[S].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from phipsi.core.expressions import Expr
from phipsi.core.operators import (
    A,
    Adot,
    B,
    Bdot,
    C_e,
    D,
    D_half,
    G,
    H,
    I,
    J,
    Jr,
    K,
    K_e,
    Lambda,
    M,
    P,
    U,
    Udot,
    V,
    a,
    b,
    f0,
    f_ext,
    gravity,
    mass_matrix,
    phi,
    proj_bar,
    psi,
    psi_tilde,
    s_gauge,
    scaled,
    tau,
    v,
    vdot,
)
from phipsi.user_operators import operator, scalar

Pair = tuple[Expr, Expr]

# Coriolis accelerations and gravity; every acceleration computed with it is the true one − [0; g].
A_G = a + gravity
WHITEN = I - H @ psi @ K
INNOVATIONS = operator("D_inv", "efforts -> rates", 0.0, symmetric=True, symbol="D⁻¹")
"""D⁻¹ where it is given."""
KNOWN_INVERSE = WHITEN.T @ INNOVATIONS @ WHITEN
"""ℳ⁻¹ where G and D⁻¹ are given: two sweeps without articulated inertias."""
MASS_MATRIX_INVERSE = mass_matrix.inv
OPERATIONAL_SPACE_INERTIA = Lambda.inv
GRAVITY_FORCES = H @ phi @ M @ phi.T @ gravity


def body_forces(external: bool, tip: bool = False) -> Expr:
    """w, with the loads that are given: forces on bodies, and the papers' forces at points."""
    w = b - f_ext if external else b
    return w + B @ f0 if tip else w


@cache
def loaded(form: Callable[[Expr], Any], external: bool = False, tip: bool = False) -> Any:
    """A form, which is a function of the body forces, with the loads that are given."""
    return form(body_forces(external, tip))


# ---- trees ------------------------------------------------------------------------------------


def bias(w: Expr) -> Expr:
    """The efforts that the loads need at v̇ = 0."""
    return H @ phi @ (M @ phi.T @ A_G + w)


def free_load(w: Expr) -> Expr:
    """T: the efforts that are left to accelerate the bodies."""
    return tau - bias(w)


def inverse(w: Expr) -> Expr:
    """The efforts that a motion needs."""
    return H @ phi @ (M @ phi.T @ (H.T @ vdot + A_G) + w) + Jr @ vdot


def forward(w: Expr) -> Expr:
    """v̇ of the tree, as if there were no constraints."""
    return MASS_MATRIX_INVERSE @ free_load(w)


def _fd1(w: Expr) -> Expr:
    return WHITEN.T @ D.inv @ WHITEN @ free_load(w)


def _fd2(w: Expr) -> Pair:
    nu = D.inv @ WHITEN @ free_load(w)
    return WHITEN.T @ nu, psi.T @ H.T @ nu + phi.T @ A_G


def fd2_with_accelerations(w: Expr) -> tuple[Expr, Expr, Expr]:
    """v̇, α and α(0) of FD2, without gravity in the accelerations."""
    nu = D.inv @ WHITEN @ free_load(w)
    motion = psi.T @ H.T @ nu + phi.T @ a
    return WHITEN.T @ nu, motion + s_gauge, B.T @ motion + Bdot.T @ V


def _fd3(w: Expr) -> Expr:
    return WHITEN.T @ D.inv @ (tau - H @ psi @ (K @ tau + M @ phi.T @ A_G + w))


def _fd4(w: Expr) -> Expr:
    nu = D.inv @ (WHITEN @ tau - H @ psi_tilde @ P @ A_G - H @ psi @ w)
    return WHITEN.T @ nu - K.T @ psi.T @ proj_bar.T @ A_G - G.T @ A_G


def through_hinges(w: Expr) -> Expr:
    """The forces through the hinges that a motion needs."""
    return phi @ (M @ phi.T @ (H.T @ vdot + A_G) + w)


def reactions(w: Expr) -> Expr:
    """The same of the motion that efforts cause."""
    return phi @ (M @ phi.T @ (H.T @ _fd3(w) + A_G) + w)


def reactions_and_motion(w: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """The same, v̇, and the velocities and accelerations of the bodies."""
    return reactions(w), _fd3(w), V, phi.T @ (H.T @ _fd3(w) + a)


def hinges_and_motion(w: Expr) -> tuple[Expr, Expr, Expr]:
    """The forces through the hinges that a motion needs, and the motions of the bodies."""
    return through_hinges(w), V, phi.T @ (H.T @ vdot + a)


BIAS_FORCES = bias(b)
INVERSE_DYNAMICS = inverse(b)
STEP_LENGTH = scalar("step", 0.0)
"""The length h of a step, where a form depends on it."""
# ℳ + h C_e + h² K_e, which is one of the Riccati families: O(N) like ℳ
_STIFF = mass_matrix + scaled(STEP_LENGTH, C_e + scaled(STEP_LENGTH, K_e))
_AHEAD = scaled(STEP_LENGTH, K_e) @ v


def linearly_implicit(w: Expr) -> Expr:
    """(v⁺ − v)/h of a step with elastic forces at its end, linear in the step."""
    return _STIFF.inv @ (free_load(w) - _AHEAD)


LINEARLY_IMPLICIT = _STIFF.inv @ (mass_matrix @ vdot - _AHEAD)
"""The same, from the accelerations at the start of the step."""

FORWARD_DYNAMICS = forward(b)
FORWARD_DYNAMICS_FD3 = _fd3(b)

TREE_FORMS: dict[str, Callable[[Expr], Expr | Pair]] = {
    "FD1": _fd1,
    "FD2": _fd2,
    "FD3": _fd3,
    "FD4": _fd4,
}

# ---- constraint rows --------------------------------------------------------------------------

ROW_MATRIX = A @ Lambda @ A.T
PAPER_MATRIX = A @ B.T @ psi.T @ H.T @ D.inv @ H @ psi @ B @ A.T  # the same, by step C
# −U where nothing is prescribed; the closure frames are in body axes, so that Bdot is zero
ROW_DRIFT = Adot @ B.T @ V + A @ B.T @ phi.T @ a
ROW_ACCELERATIONS = A @ J @ vdot + ROW_DRIFT
IMPULSE = ROW_MATRIX.inv @ (A @ J @ v - Udot)
VELOCITY_CHANGE = mass_matrix.inv @ J.T @ A.T @ IMPULSE
_REACH = mass_matrix.inv @ J.T @ A.T
# Y: the rates that impulses cause while the constraints hold
CLOSED_INVERSE = mass_matrix.inv - _REACH @ ROW_MATRIX.inv @ A @ J @ mass_matrix.inv
HINGE_LOADS = phi @ B @ A.T  # of multipliers


def _wanted(prescribed: bool) -> Expr:
    """U, with Udot as an input or zero."""
    return U if prescribed else -ROW_DRIFT


def _closed(w: Expr, prescribed: bool) -> Pair:
    """(v̇, f), with the constraint load inside the last pair of sweeps."""
    point = B.T @ phi.T @ H.T @ forward(w) + B.T @ phi.T @ a
    gap = A @ point + Adot @ B.T @ V
    f = ROW_MATRIX.inv @ (gap - Udot if prescribed else gap)
    return forward(w + B @ A.T @ f), f


def _steps_a_to_f(w: Expr, prescribed: bool) -> Pair:
    """Steps A to F of SOA, one after the other."""
    free = _fd1(w)
    f = PAPER_MATRIX.inv @ (A @ J @ free - _wanted(prescribed))
    return free - WHITEN.T @ D.inv @ H @ psi @ B @ A.T @ f, f


def _projection(w: Expr, prescribed: bool) -> Pair:
    """Eq. 0.37: the innovations that the constraints allow, and those that U asks for."""
    half = D_half.inv @ H @ psi @ B @ A.T
    gram = half.T @ half
    innovations = D_half.inv @ WHITEN @ free_load(w)
    f = gram.inv @ (half.T @ innovations - _wanted(prescribed))
    return WHITEN.T @ D_half.inv.T @ (innovations - half @ f), f


def _rccfd1(w: Expr, prescribed: bool) -> Pair:
    free = _fd1(w)
    point = B.T @ phi.T @ (H.T @ free + a)
    gap = A @ point + Adot @ B.T @ V
    f = PAPER_MATRIX.inv @ (gap - Udot if prescribed else gap)
    return free - WHITEN.T @ D.inv @ H @ psi @ B @ A.T @ f, f


def _rccfd2(w: Expr, prescribed: bool) -> Pair:
    """Never forms the accelerations of the free system."""
    load = free_load(w)
    point = B.T @ psi.T @ H.T @ D.inv @ WHITEN @ load
    f = PAPER_MATRIX.inv @ (A @ point - _wanted(prescribed))
    return WHITEN.T @ D.inv @ (load - H @ psi @ (K @ load + B @ A.T @ f)), f


def _rccfd3(w: Expr, prescribed: bool) -> Pair:
    """Accelerations as the sum of those of the load and those that U asks for."""
    whitened = WHITEN @ free_load(w)
    reach = H @ psi @ B @ A.T
    inside = D.inv - D.inv @ reach @ PAPER_MATRIX.inv @ reach.T @ D.inv
    wanted = _wanted(prescribed)
    first = WHITEN.T @ inside @ whitened
    second = WHITEN.T @ D.inv @ reach @ PAPER_MATRIX.inv @ wanted
    f = PAPER_MATRIX.inv @ (reach.T @ D.inv @ whitened - wanted)
    return first + second, f


FORMS: dict[str, Callable[[Expr, bool], Pair]] = {
    "A-F": _steps_a_to_f,
    "0.37": _projection,
    "RCCFD1": _rccfd1,
    "RCCFD2": _rccfd2,
    "RCCFD3": _rccfd3,
}


@cache
def forward_with_rows(name: str | None, external: bool, prescribed: bool) -> Pair:
    """(v̇, f) of a form, None being the one that is rewritten freely.

    `external`: with forces f_ext on the bodies; `prescribed`: with Udot as an input.
    """
    return (_closed if name is None else FORMS[name])(body_forces(external), prescribed)
