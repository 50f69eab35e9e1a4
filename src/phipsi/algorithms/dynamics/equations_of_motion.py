"""Equations of motion: inverse and forward dynamics, mass matrix, bias forces, reactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.constraint_forces import constrained_dynamics, constrained_reactions
from phipsi.backends.program import Program
from phipsi.compiler import compile, program_of
from phipsi.errors import InputError
from phipsi.expressions.node import Expr
from phipsi.model.mechanisms import mechanism_of, of_given_motion, of_mechanisms, of_trees, tree_of
from phipsi.model.model import Model
from phipsi.model.points import PointSet
from phipsi.operators import (
    B,
    D,
    G,
    H,
    I,
    Jr,
    K,
    M,
    P,
    a,
    b,
    f0,
    f_ext,
    gravity,
    phi,
    proj_bar,
    psi,
    psi_tilde,
    tau,
    vdot,
)
from phipsi.operators import mass_matrix as mass_matrix_operator

Array = NDArray[Any]
Points = Sequence[Any] | PointSet

# Coriolis accelerations and gravity; every acceleration computed with it is the true one − [0; g].
A_G = a + gravity
WHITEN = I - H @ psi @ K

BIAS_FORCES = H @ phi @ (M @ phi.T @ A_G + b)
GRAVITY_FORCES = H @ phi @ M @ phi.T @ gravity
MASS_MATRIX_INVERSE = mass_matrix_operator.inv


# ---- the forms, as functions of the body forces w = b − f_ext + B f0 ----------------------------


def _inverse(w: Expr) -> Expr:
    return H @ phi @ (M @ phi.T @ (H.T @ vdot + A_G) + w) + Jr @ vdot


def _forward(w: Expr) -> Expr:
    return MASS_MATRIX_INVERSE @ (tau - H @ phi @ (M @ phi.T @ A_G + w))


def _fd1(w: Expr) -> Expr:
    return WHITEN.T @ D.inv @ WHITEN @ (tau - H @ phi @ (M @ phi.T @ A_G + w))


def _fd2(w: Expr) -> tuple[Expr, Expr]:
    nu = D.inv @ WHITEN @ (tau - H @ phi @ (M @ phi.T @ A_G + w))
    return WHITEN.T @ nu, psi.T @ H.T @ nu + phi.T @ A_G


def _fd3(w: Expr) -> Expr:
    return WHITEN.T @ D.inv @ (tau - H @ psi @ (K @ tau + M @ phi.T @ A_G + w))


def _fd4(w: Expr) -> Expr:
    nu = D.inv @ (WHITEN @ tau - H @ psi_tilde @ P @ A_G - H @ psi @ w)
    return WHITEN.T @ nu - K.T @ psi.T @ proj_bar.T @ A_G - G.T @ A_G


def _reactions(w: Expr) -> Expr:
    return phi @ (M @ phi.T @ (H.T @ _fd3(w) + A_G) + w)


INVERSE_DYNAMICS = _inverse(b)
FORWARD_DYNAMICS = _forward(b)
FORWARD_DYNAMICS_FD3 = _fd3(b)

ALGORITHMS: dict[str, Callable[[Expr], Expr | tuple[Expr, Expr]]] = {
    "FD1": _fd1,
    "FD2": _fd2,
    "FD3": _fd3,
    "FD4": _fd4,
}


@cache
def _loaded(form: Callable[[Expr], Any], external: bool, tip: bool) -> Any:
    """A form with the loads that are given."""
    w = b - f_ext if external else b
    return form(w + B @ f0 if tip else w)


def _program(
    function: Callable[..., Any],
    form: Callable[[Expr], Any],
    model: Model,
    external: ArrayLike | None,
    points: Points | None,
    tip: ArrayLike | None,
    rewrite: str = "full",
) -> tuple[Program, tuple[ArrayLike, ...]]:
    """The program of a form, and the loads it takes as last inputs."""
    if (points is None) != (tip is None):
        given, missing = ("points", "f0") if tip is None else ("f0", "points")
        raise InputError(
            f"{given}= was given without {missing}=: f0 are forces at points, so both are needed:\n"
            "    points=[('hand', (0, 0, 0.1))], f0=[[0, 0, 0, 0, 0, 10]]"
        )
    expr = _loaded(form, external is not None, tip is not None)
    loads = tuple(x for x in (external, tip) if x is not None)
    tree = tree_of(model, function)
    return compile(expr, tree, points=points, rewrite=rewrite), loads


# ---- the named functions ----------------------------------------------------------------------


_DRIVEN = (
    "Say which joints have a drive:\n"
    "    pp.closed_inverse_dynamics(system, q, v, vdot, actuated=[…])"
)


@of_trees("which efforts a motion needs depends on which joints are driven", _DRIVEN)
def inverse_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vdot: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    points: Points | None = None,
    f0: ArrayLike | None = None,
) -> Array:
    """Joint efforts that a motion needs (recursive Newton–Euler).

    tau = H φ [M φ* (H* vdot + a + gravity) + b − f_ext + B f0] + Jr vdot. In N·m for turning and N
    for sliding joints, in the directions of v.

    **Arguments:** `q` (..., nq), `v`, `vdot` (..., nv); `f_ext` (..., n, 6), the force on each body
    at its origin in body axes, [moment; force]; `points` with `f0` (..., nC, 6), the papers' forces
    exerted by the mechanism at the points, in world axes. **Returns:** tau (..., nv).
    **Cost:** two sweeps, O(N). **Source:** SOA eq. 0.1; MM eq. 6–12.

    >>> from phipsi import inverse_dynamics
    >>> from phipsi.examples import planar_arm
    >>> inverse_dynamics(planar_arm(1), [0.0], [0.0], [0.0])     # hold a rod of 1 kg and 1 m
    array([4.905])
    """
    if f_ext is points is f0 is None:
        return program_of(INVERSE_DYNAMICS, model, "apply", inverse_dynamics)(q, v, vdot)
    program, loads = _program(inverse_dynamics, _inverse, model, f_ext, points, f0)
    return program(q, v, vdot, *loads)


@of_mechanisms
def forward_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    points: Points | None = None,
    f0: ArrayLike | None = None,
    algorithm: str | None = None,
    Udot: ArrayLike | None = None,
) -> Array:
    """Joint accelerations that efforts cause.

    vdot = ℳ⁻¹ (tau − H φ [M φ* (a + gravity) + b − f_ext + B f0]), which the compiler turns into
    the innovations form. With `algorithm`, one of the papers' four forms exactly as written, with
    a' = a + gravity, w = b − f_ext + B f0 and W = I − H ψ K:

        FD1  vdot = W* D⁻¹ W (tau − H φ [M φ* a' + w])
        FD2  ν = D⁻¹ W (tau − H φ [M φ* a' + w]),  vdot = W* ν,  and  α = ψ* H* ν + φ* a'
        FD3  vdot = W* D⁻¹ (tau − H ψ [K tau + M φ* a' + w])
        FD4  vdot = W* D⁻¹ (W tau − H ψ̃ P a' − H ψ w) − K* ψ* π̄* a' − G* a'

    FD4 in body axes is the articulated-body algorithm. For a `System` the accelerations also obey
    its constraints, ℳ vdot = tau − bias − (A J)* f with A J vdot = U (see `constrained_dynamics`),
    and the papers' forms are "A-F", "0.37", "RCCFD1" … "RCCFD3". Units rad/s² and m/s², in the
    directions of v.

    **Arguments:** `q` (..., nq), `v`, `tau` (..., nv); `f_ext`, `points`, `f0` as for
    `inverse_dynamics`; `algorithm`, None or "FD1" … "FD4"; `Udot` (..., rows), for a system the
    rate of its prescribed rates. **Returns:** vdot (..., nv). A joint with nothing to move raises
    `SingularHingeError`.
    **Cost:** three sweeps, O(N); of a system five, and the elimination of its rows.
    **Source:** MM sec. VII; 88-11 sec. 4–5.

    >>> from phipsi import forward_dynamics
    >>> from phipsi.examples import planar_arm
    >>> forward_dynamics(planar_arm(1), [0.0], [0.0], [0.0])     # a rod let go: 3 g / 2 l
    array([-14.715])
    """
    if getattr(model, "constraints", ()) and model.n_rows:
        if points is not None or f0 is not None:
            raise InputError(
                "a system has no forces at points, because its points are its closure frames: give "
                "them as forces on bodies, f_ext="
            )
        motion = constrained_dynamics(model, q, v, tau, f_ext, Udot=Udot, algorithm=algorithm)
        return motion.vdot
    if f_ext is points is f0 is algorithm is None:
        return program_of(FORWARD_DYNAMICS, model, "apply", forward_dynamics)(q, v, tau)
    if algorithm is None:
        program, loads = _program(forward_dynamics, _forward, model, f_ext, points, f0)
        return program(q, v, tau, *loads)
    if algorithm not in ALGORITHMS:
        known = ", ".join(map(repr, ALGORITHMS))
        raise InputError(f"algorithm={algorithm!r} is not one of {known} (or None, the default)")
    form = ALGORITHMS[algorithm]
    program, loads = _program(forward_dynamics, form, model, f_ext, points, f0, "as_written")
    result = program(q, v, tau, *loads)
    return result[0] if isinstance(result, tuple) else result


@of_given_motion
def mass_matrix(model: Model, q: ArrayLike) -> Array:
    """Joint-space mass matrix.

    ℳ = H φ M φ* H* + Jr: joint rates → joint efforts, symmetric and positive definite unless a
    joint has nothing to move. Entries in kg·m², kg·m or kg, by the kind of the joints. For a
    `System` it is the ℳ of ℳ vdot + bias + (A J)* f = tau, of all rates of its tree: ½ v* ℳ v is
    the kinetic energy.

    **Arguments:** `q` (..., nq). **Returns:** (..., nv, nv).
    **Cost:** O(N²) for the N² entries. **Source:** SOA eq. 0.7; MM eq. 22, 28–33.

    >>> from phipsi import mass_matrix
    >>> from phipsi.examples import planar_arm
    >>> mass_matrix(planar_arm(2), [0.0, 0.0]).round(4)
    array([[2.6667, 0.8333],
           [0.8333, 0.3333]])
    """
    return program_of(mass_matrix_operator, model, "dense", mass_matrix)(q)


@of_trees(
    "an effort also causes constraint forces, so its inverse mass matrix does not turn efforts "
    "into accelerations",
    "Accelerations that efforts cause, and their derivatives by the efforts:\n"
    "    pp.forward_dynamics(system, q, v, tau)\n"
    "    pp.constrained_dynamics_derivatives(system, q, v, tau)[2]",
)
def mass_matrix_inverse(model: Model, q: ArrayLike) -> Array:
    """Inverse of the joint-space mass matrix, without forming the mass matrix.

    ℳ⁻¹ = (I − H ψ K)* D⁻¹ (I − H ψ K): joint efforts → joint accelerations.

    **Arguments:** `q` (..., nq). **Returns:** (..., nv, nv). A joint with nothing to move raises
    `SingularHingeError`.
    **Cost:** O(N²) for the N² entries. To solve with ℳ for a few right-hand sides compile
    ``mass_matrix.inv`` itself, O(N) each. **Source:** SOA Lemma 0.3; MM eq. 46.

    >>> from phipsi import mass_matrix_inverse
    >>> from phipsi.examples import planar_arm
    >>> mass_matrix_inverse(planar_arm(2), [0.0, 0.0]).round(4)
    array([[ 1.7143, -4.2857],
           [-4.2857, 13.7143]])
    """
    return program_of(MASS_MATRIX_INVERSE, model, "dense", mass_matrix_inverse)(q)


@of_trees(
    "its equation of motion is ℳ vdot + bias + (A J)* f = tau, and the bias forces alone are not "
    "the efforts that it needs at vdot = 0",
    _DRIVEN,
)
def bias_forces(model: Model, q: ArrayLike, v: ArrayLike) -> Array:
    """Joint efforts at vdot = 0: Coriolis, centrifugal and gravity terms together.

    C = H φ (M φ* (a + gravity) + b), so that tau = ℳ vdot + C. In N·m and N, in the directions
    of v.

    **Arguments:** `q` (..., nq), `v` (..., nv). **Returns:** (..., nv).
    **Cost:** two sweeps, O(N). **Source:** SOA eq. 0.14; 88-11 eq. 3.20–3.21.

    >>> from phipsi import bias_forces
    >>> from phipsi.examples import planar_arm
    >>> bias_forces(planar_arm(2), [0.0, 1.5708], [1.0, 1.0]).round(3)
    array([13.215,  0.5  ])
    """
    return program_of(BIAS_FORCES, model, "apply", bias_forces)(q, v)


@of_trees(
    "which efforts hold it against gravity depends on which joints are driven: constraint forces "
    "carry a part of the weight",
    "Say which joints have a drive:\n"
    "    pp.closed_inverse_dynamics(system, q, 0 * v, 0 * v, actuated=[…])",
)
def gravity_forces(model: Model, q: ArrayLike) -> Array:
    """Joint efforts that hold the mechanism still against gravity.

    H φ M φ* gravity, the gradient of `potential_energy`. In N·m and N, in the directions of v.

    **Arguments:** `q` (..., nq). **Returns:** (..., nv).
    **Cost:** two sweeps, O(N). **Source:** 88-11 eq. 3.21.

    >>> from phipsi import gravity_forces
    >>> from phipsi.examples import planar_arm
    >>> gravity_forces(planar_arm(2), [0.0, 0.0])
    array([19.62 ,  4.905])
    """
    return program_of(GRAVITY_FORCES, model, "apply", gravity_forces)(q)


@of_mechanisms
def joint_reactions(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    Udot: ArrayLike | None = None,
) -> Array:
    """Whole force that passes through every hinge in forward dynamics.

    f = φ [M φ* (H* vdot + a + gravity) + b − f_ext] with vdot in the form FD3. Row k is the
    force exerted by the parent on body k, at O(k), in body axes, [moment (N·m), force (N)], with
    the actuator effort in it: H f = tau − Jr vdot. For a `System` the forces of its constraints
    load the bodies too, f = φ [… − f_ext + B A* λ] with λ of `constraint_forces`; what passes
    through the closures themselves is λ. Where rows are redundant only some components of the
    reactions are determined by rigid bodies, and those of the least λ are returned.

    **Arguments:** `q` (..., nq), `v`, `tau` (..., nv); `f_ext` (..., n, 6) as for
    `inverse_dynamics`; `Udot` as for `forward_dynamics`. **Returns:** (..., n, 6).
    **Cost:** four sweeps, O(N); of a system that of `constraint_forces` and two sweeps.
    **Source:** theory/open-chains 11.1.

    >>> from phipsi import joint_reactions
    >>> from phipsi.examples import planar_arm
    >>> joint_reactions(planar_arm(1), [0.0], [0.0], [4.905]).round(3)     # at rest: the weight
    array([[0.   , 0.   , 4.905, 0.   , 9.81 , 0.   ]])
    """
    if mechanism_of(model, joint_reactions).n_rows:
        return constrained_reactions(model, q, v, tau, f_ext, Udot=Udot)
    program, loads = _program(joint_reactions, _reactions, model, f_ext, None, None, "as_written")
    return program(q, v, tau, *loads)
