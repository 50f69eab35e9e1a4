"""Dynamics of systems with constraints: accelerations, constraint forces, impulses."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.constraint_rows import rows_of
from phipsi.algorithms.dynamics.doubtful_rows import accelerations, impulses, with_doubts_settled
from phipsi.algorithms.dynamics.forms import FORMS, IMPULSE, ROW_MATRIX, closed_form, free_form
from phipsi.algorithms.dynamics.reflected import secondary_dynamics
from phipsi.backends.arguments import state_arrays
from phipsi.backends.program import Program
from phipsi.compiler import compile, program_of
from phipsi.errors import InputError
from phipsi.expressions.node import Expr
from phipsi.model.mechanisms import of_mechanisms, tree_of
from phipsi.model.model import Model
from phipsi.operators import A, B, H, J, M, a, b, gravity, mass_matrix, phi
from phipsi.operators import f_ext as f_ext_leaf
from phipsi.operators import vdot as vdot_leaf

Array = NDArray[Any]

VELOCITY_CHANGE = mass_matrix.inv @ J.T @ A.T @ IMPULSE


class ConstrainedMotion(NamedTuple):
    """`vdot` (..., nv), and the constraint multipliers `f` (..., rows)."""

    vdot: Array
    f: Array


@of_mechanisms
def constrained_dynamics(
    system: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    Udot: ArrayLike | None = None,
    algorithm: str | None = None,
) -> ConstrainedMotion:
    """Accelerations and multipliers together, from one program.

    ℳ vdot = tau − bias − J* A* f with A J vdot = U, U = Udot − d/dt(A J) v. Where rows are
    redundant vdot is unique, and f is one of the possible ones: zero on rows that follow from
    others (`constraint_forces` gives the least).

    **Arguments:** as for `forward_dynamics`; `algorithm`, None, a form of the papers exactly as
    written ("A-F", "0.37", "RCCFD1", "RCCFD2", "RCCFD3"), or "secondary": solve for the small
    secondary system, with the primary one reflected into it. **Returns:** (vdot, f).
    **Cost:** five sweeps, O(N), and the elimination of the rows: O(rows) for loops of separate
    trees, O(rows³) where all are coupled. **Source:** SOA steps A–F; 88-11 Part II RCCFD2.

    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> pin = pp.constraints.Spherical(name="pin", a="tip", b=("world", (1.5, 0, 0)))
    >>> four_bar = pp.System(arm, [pin])
    >>> q = four_bar.assemble([1.0, -1.0, -1.5])
    >>> motion = pp.constrained_dynamics(four_bar, q, [0, 0, 0], [0, 0, 0])
    >>> motion.vdot.shape, motion.f.shape
    ((3,), (3,))
    """
    tree_of(system, constrained_dynamics)
    plain = f_ext is Udot is algorithm is None
    if plain:
        program = system.programs.get(constrained_dynamics)  # the shortest way, for single calls
        if program is not None:
            return ConstrainedMotion(*program(q, v, tau))
    if not system.closures.n_rows:  # nothing holds: the tree moves freely
        loads = () if f_ext is None else (f_ext,)
        vdot = program_of(free_form(f_ext is not None), system.model)(q, v, tau, *loads)
        return ConstrainedMotion(vdot, np.zeros((*vdot.shape[:-1], 0)))
    if algorithm == "secondary":
        return ConstrainedMotion(*secondary_dynamics(system, q, v, tau, f_ext, Udot=Udot))
    program, extras = _program(system, f_ext, Udot, algorithm)
    if plain:
        system.programs[constrained_dynamics] = program
    return ConstrainedMotion(*program(q, v, tau, *extras))


@of_mechanisms
def constraint_forces(
    system: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    Udot: ArrayLike | None = None,
) -> Array:
    """Multipliers f of the constraint rows in forward dynamics.

    ℳ vdot = tau − bias − (A J)* f: the system exerts f on the closure. In N along linear and N·m
    about angular rows, in the order of `system.row_names`. Redundant rows leave the distribution of
    f among them undetermined (it would need elastic bodies); the one of least norm is returned.

    **Arguments:** as for `forward_dynamics`. **Returns:** (..., rows).
    **Cost:** that of `forward_dynamics`, and a singular value decomposition of A J.
    **Source:** SOA eq. 0.23; theory/closed-chains 6.

    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> pin = pp.constraints.Distance(1.0, name="string", a="tip", b=("world", (1.0, 1.0, 0)))
    >>> f = pp.constraint_forces(pp.System(arm, [pin]), [0.0], [0.0], [0.0])
    >>> f.round(3).tolist()                       # half the weight of the rod hangs on the string
    [4.905]
    """
    tree_of(system, constraint_forces)
    f = constrained_dynamics(system, q, v, tau, f_ext, Udot=Udot).f
    if not system.closures.n_rows:
        return f
    return least_multipliers(system, q, f)


@cache
def _reaction_forms(external: bool) -> tuple[Expr, Expr]:
    """The forces through the hinges that a motion needs, and those that multipliers add."""
    w = b - f_ext_leaf if external else b
    return phi @ (M @ phi.T @ (H.T @ vdot_leaf + a + gravity) + w), phi @ B @ A.T


def constrained_reactions(
    system: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    Udot: ArrayLike | None = None,
) -> Array:
    """The forces through the hinges of the tree, (..., n, 6), as `joint_reactions` returns them."""
    vdot, f = constrained_dynamics(system, q, v, tau, f_ext, Udot=Udot)
    f = least_multipliers(system, q, f)
    loads = () if f_ext is None else (f_ext,)
    forms = _reaction_forms(f_ext is not None)
    needed, added = program_of(forms, system)(q, v, vdot, *loads, f)  # type: ignore[misc]
    return needed + added


def least_multipliers(system: Model, q: ArrayLike, f: Array) -> Array:
    """The f (..., rows) of least norm that loads the joints alike: without self-stress.

    Of multipliers that `constrained_dynamics` found: zero on rows that follow from others, so that
    none of them is zero only if all rows are independent.
    """
    if f.all():
        return f
    at = np.asarray(q, dtype=np.float64)
    if at.ndim > 1:  # one configuration does for all motions
        at = np.broadcast_to(at, (*f.shape[:-1], at.shape[-1]))
    metric = ConstraintMetric(rows_of(system), at.reshape(-1, at.shape[-1]))
    return metric.without_self_stress(f.reshape(-1, f.shape[-1])).reshape(f.shape)


@of_mechanisms
def constraint_impulse(
    system: Model, q: ArrayLike, v: ArrayLike, *, rates: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Velocity jump when constraints are switched on: momentum-consistent, all rows together.

    ℳ (v⁺ − v) = −(A J)* p with A J v⁺ = rates. It is the projection of v on the constraints in the
    mass metric; kinetic energy is lost as in Carnot's theorem, KE − KE⁺ = ½ p* A Λ A* p.

    **Arguments:** `q` (..., nq), `v` (..., nv); `rates` (..., rows), zero by default.
    **Returns:** v⁺ (..., nv) and the impulses p (..., rows) in N·s and N·m·s.
    **Cost:** four sweeps and the elimination of the rows. **Source:** theory/closed-chains 11.

    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> weld = pp.constraints.Coupling(name="lock", joints=[arm.joint_names[1]], coefficients=[1])
    >>> after, p = pp.constraint_impulse(pp.System(arm, [weld]), [0.0, 0.0], [1.0, 1.0])
    >>> after.round(4).tolist()
    [1.3125, 0.0]
    """
    tree_of(system, constraint_impulse)
    if not system.n_rows:
        (v,) = state_arrays(system.model, v=v)
        return v.copy(), np.zeros((*v.shape[:-1], 0))
    wanted = np.zeros(system.closures.n_rows) if rates is None else rates
    program = program_of((VELOCITY_CHANGE, IMPULSE), system)
    if program.resolve is None:
        with_doubts_settled(program, system, impulses)
    change, p = program(q, v, wanted)  # type: ignore[misc]
    return np.asarray(v, dtype=np.float64) - change, p


@of_mechanisms
def delassus_matrix(system: Model, q: ArrayLike) -> Array:
    """A Λ A*: constraint multipliers → accelerations of the rows.

    By the recursion for Λ along the paths of the closure frames, never through ℳ⁻¹.

    **Arguments:** `q` (..., nq). **Returns:** (..., rows, rows), symmetric, semidefinite where rows
    are redundant. **Cost:** O(N + rows · depth + rows²). **Source:** SOA eq. .43, tree form.

    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> pin = pp.constraints.Spherical(name="pin", a="tip", b=("world", (2, 0, 0)))
    >>> pp.delassus_matrix(pp.System(arm, [pin]), [0.0, 0.0]).round(3)
    array([[0.   , 0.   , 0.   ],
           [0.   , 3.429, 0.   ],
           [0.   , 0.   , 0.   ]])
    """
    tree_of(system, delassus_matrix)
    if not system.n_rows:
        (q,) = state_arrays(system.model, q=q)
        return np.zeros((*q.shape[:-1], 0, 0))
    return program_of(ROW_MATRIX, system, "dense")(q)


def _program(
    system: Model,
    f_ext: ArrayLike | None,
    Udot: ArrayLike | None,
    algorithm: str | None,
) -> tuple[Program, tuple[ArrayLike, ...]]:
    if algorithm is not None and algorithm not in FORMS:
        known = ", ".join(map(repr, (*FORMS, "secondary")))
        raise InputError(f"algorithm={algorithm!r} is not one of {known} (or None, the default)")
    pair = closed_form(algorithm, f_ext is not None, Udot is not None)
    extras = tuple(x for x in (f_ext, Udot) if x is not None)
    if algorithm is None:
        program = program_of(pair, system)
    else:
        program = compile(pair, system, rewrite="as_written")
    if program.resolve is None:
        with_doubts_settled(program, system, accelerations)
    return program, extras
