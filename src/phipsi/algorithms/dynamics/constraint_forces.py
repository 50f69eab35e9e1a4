"""Effects of constraints: multipliers, forces at closures, impulses, the matrix of the rows."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.constraint_rows import ClosureRows, rows_of
from phipsi.algorithms.dynamics.dynamics_expressions import (
    FORMS,
    HINGE_LOADS,
    IMPULSE,
    ROW_MATRIX,
    VELOCITY_CHANGE,
    forward,
    forward_with_rows,
    hinges_and_motion,
    loaded,
    through_hinges,
)
from phipsi.algorithms.dynamics.secondary_dynamics import secondary_dynamics
from phipsi.core.backends import (
    CONTRADICTION,
    CallOptions,
    Calls,
    Program,
    state_arrays,
)
from phipsi.core.compiler import NamedForm, compile, evaluate, program_of
from phipsi.core.model import Model, supports, tree_of
from phipsi.core.operators import A
from phipsi.core.spatial import ARRAYS
from phipsi.errors import InputError, one_of
from phipsi.support import fields_in_line

Array = NDArray[Any]
Inputs = dict[str, Array]
WITHOUT_OPTIONS = Calls({})
_ROW_MATRIX = NamedForm(ROW_MATRIX, "dense")


class Dynamics(NamedTuple):
    """One solution of the equations of motion, ℳ vdot + bias + (A J)* f = tau with A J vdot = U.

    Parameters
    ----------
    vdot : ndarray, shape (..., nv)
        Generalized accelerations.
    tau : ndarray, shape (..., nv)
        Joint torques and forces.
    f : ndarray, shape (..., rows)
        Constraint multipliers.
    """

    vdot: Array
    tau: Array
    f: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


class Impulse(NamedTuple):
    """Velocities after an impact, and its impulses.

    Parameters
    ----------
    v : ndarray, shape (..., nv)
        Generalized velocities after the impact.
    p : ndarray, shape (..., rows)
        Impulses of the constraint rows, N·s and N·m·s.
    """

    v: Array
    p: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


class Reactions(NamedTuple):
    """Forces [moment (N·m); force (N)] that pass through joints and closures.

    Parameters
    ----------
    joints : ndarray, shape (..., bodies, 6)
        Force of the parent on each body, at the body's origin in body axes.
    closures : ndarray, shape (..., frames, 6)
        Force of each closure on the body of each of its frames, at the frame's origin in its axes,
        in the order of `model.closures.points.names`.
    """

    joints: Array
    closures: Array

    def __repr__(self) -> str:
        return fields_in_line(self)


def motion_and_multipliers(
    system: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    row_acceleration: ArrayLike | None = None,
    algorithm: str | None = None,
    calls: Calls = WITHOUT_OPTIONS,
) -> tuple[Array, Array]:
    """(vdot, f) of a mechanism.

    Where rows are redundant vdot is unique, and f is one of the possible ones: zero on rows that
    follow from others (`constraint_forces` gives the least).
    """
    plain = f_ext is row_acceleration is algorithm is None
    if plain:
        program = system.cache.get(motion_and_multipliers)  # the shortest way, for single calls
        if program is not None:
            return calls(program, q, v, tau)
    if not system.n_rows:  # nothing holds: the tree moves freely
        reject_row_acceleration(row_acceleration)
        loads = () if f_ext is None else (f_ext,)
        program = program_of(loaded(forward, f_ext is not None), system.model)
        vdot = calls(program, q, v, tau, *loads)
        return vdot, np.zeros((*vdot.shape[:-1], 0))
    if isinstance(algorithm, str) and algorithm == "secondary":
        loads = tuple(x for x in (row_acceleration, f_ext) if x is not None)
        solve = partial(secondary_dynamics, system, row_acceleration is not None, f_ext is not None)
        return calls.solve(solve, q, v, tau, *loads, matrices=int(f_ext is not None))
    program, extras = _program(system, f_ext, row_acceleration, algorithm)
    if plain:
        system.cache[motion_and_multipliers] = program
    return calls(program, q, v, tau, *extras)


def reject_row_acceleration(row_acceleration: ArrayLike | None) -> None:
    """Reject accelerations along constraint rows where there are no rows."""
    if row_acceleration is not None and np.size(row_acceleration):
        raise InputError(
            "row_acceleration= has no effect: it is the acceleration along constraint rows, and "
            "the mechanism has no constraints. Remove it, or add the constraints:\n"
            "    pp.System(model, constraints)"
        )


@supports(loops=True, flexible=True, rotors=True)
def constraint_forces(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    row_acceleration: ArrayLike | None = None,
    **options: Unpack[CallOptions],
) -> Array:
    """Multipliers f of the constraint rows in forward dynamics.

    ℳ vdot = tau − bias − (A J)* f: the mechanism exerts f on the closure. In N along linear and N·m
    about angular rows, in the order of `model.row_names`. Redundant rows leave the distribution of
    f among them statically indeterminate (it would need elastic bodies); the minimum-norm one is
    returned.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    tau : array_like, shape (..., nv)
        Joint torques and forces, N·m or N, in the directions of v.
    f_ext : array_like, shape (..., n, 6), optional
        External force on each body at its origin in body axes, [moment (N·m); force (N)]. Default:
        none.
    row_acceleration : array_like, shape (..., rows), optional
        Rate of the velocities that rows prescribe. Default: zero.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., rows)
        The multipliers.

    See Also
    --------
    forward_dynamics : The accelerations.
    joint_reactions : Whole forces in joints and closures.

    Notes
    -----
    **Cost:** that of `forward_dynamics`, and a singular value decomposition of A J. **Source:** SOA
    eq. 0.23; theory/closed-chains 6.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> pin = pp.constraints.Distance(1.0, name="string", a="tip", b=("world", (1.0, 1.0, 0)))
    >>> f = pp.constraint_forces(pp.System(arm, [pin]), [0.0], [0.0], [0.0])
    >>> f.round(3).tolist()                       # half the weight of the rod hangs on the string
    [4.905]
    """
    tree_of(model, constraint_forces)
    calls = Calls(options)
    return calls.finish(
        _motion_and_least_forces(model, q, v, tau, f_ext, row_acceleration, calls)[1]
    )


def _motion_and_least_forces(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None,
    row_acceleration: ArrayLike | None,
    calls: Calls,
) -> tuple[Array, Array]:
    vdot, f = motion_and_multipliers(
        model, q, v, tau, f_ext, row_acceleration=row_acceleration, calls=calls
    )
    # zero on rows that follow from others: if none is zero, all are independent
    return vdot, f if f.all() else calls.solve(partial(least_multipliers, model), q, f)


def hinge_reactions(
    system: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    row_acceleration: ArrayLike | None = None,
    calls: Calls = WITHOUT_OPTIONS,
) -> Reactions:
    """The forces through the hinges of the tree and through its closures."""
    vdot, f = _motion_and_least_forces(system, q, v, tau, f_ext, row_acceleration, calls)
    loads = () if f_ext is None else (f_ext,)
    attached = system.description.attachments
    if attached.with_inertia:
        attached.check_momentum(system.model, "joint_reactions")
        forms = (*loaded(hinges_and_motion, f_ext is not None), HINGE_LOADS)
        needed, V, A, added = calls(program_of(forms, system), q, v, vdot, *loads, f)
        needed = attached.joint_forces(system.model, needed, q, v, vdot, V, A)
    else:
        forms = (loaded(through_hinges, f_ext is not None), HINGE_LOADS)
        needed, added = calls(program_of(forms, system), q, v, vdot, *loads, f)
    whole = needed + added
    if getattr(system, "shaft_forces", ()):
        whole = whole + calls.solve(partial(_forces_on_shafts, system), q, f)
    return Reactions(whole, calls.solve(partial(closure_forces, system), q, f))


def _forces_on_shafts(system: Any, q: Array, f: Array) -> Array:
    """What teeth and belts add to forces through joints (n, bodies, 6), from f (n, rows)."""
    poses = rows_of(system).poses(q)
    poses = np.broadcast_to(poses, (len(f), *poses.shape[1:]))
    out = np.zeros((len(f), system.n_bodies, 6))
    for row, known in system.shaft_forces:
        added = known.missing(f[:, row : row + known.rows], poses)
        for body, force in zip(known.bodies, added, strict=True):
            out[:, body] += force
    return out


def closure_forces(system: Model, q: Array, f: Array) -> Array:
    """Forces (n, frames, 6) of multipliers (n, rows) on the bodies, at the closure frames.

    −A* f. The world has no columns in A: on it acts the force that keeps the closure in
    equilibrium, or that of its constant rows.
    """
    forces = -program_of(A.T, system)(q, f)
    closures, rows = system.closures, rows_of(system)
    R, x = rows.frames(rows.poses(q))
    for closure, first in zip(closures.closures, closures.first_point, strict=True):
        own = closures.row_closure == closures.closures.index(closure)
        for p, (body, _) in enumerate(closure.points):
            w, m = int(first) + p, int(closures.mate[first + p])
            if body >= 0:
                continue
            back = np.swapaxes(R[..., w, :, :], -1, -2)
            if closure.matrix is None:
                loads = forces[..., m, :].reshape(*forces.shape[:-2], 2, 3, 1)
                turned = ((back @ R[..., m, :, :])[..., None, :, :] @ loads)[..., 0]
                arm = (back @ (x[..., m, :] - x[..., w, :])[..., None])[..., 0]
                forces[..., w, :3] = -turned[..., 0, :] - np.cross(arm, turned[..., 1, :])
                forces[..., w, 3:] = -turned[..., 1, :]
            else:
                multipliers = f[..., own]
                if closure.laws:
                    at = [q[..., i] for i in closure.places]
                    slopes = [law.slope(p // 2, at, (), ARRAYS) for law in closure.laws]
                    multipliers = multipliers * np.stack(np.broadcast_arrays(*slopes), axis=-1)
                loads = -(multipliers @ closure.matrix[:, 6 * p : 6 * p + 6])
                if closure.axes == "world":
                    halves = loads.reshape(*loads.shape[:-1], 2, 3, 1)
                    loads = (back[..., None, :, :] @ halves).reshape(loads.shape)
                forces[..., w, :] = loads
    return forces


def least_multipliers(system: Model, q: Array, f: Array) -> Array:
    """The f (n, rows) of least norm that loads the joints as f does: without self-stress."""
    if len(q) > 1 and (q == q[0]).all():  # one configuration does for all motions
        q = q[:1]
    return ConstraintMetric(rows_of(system), q).without_self_stress(f)


@supports(loops=True, flexible=True, rotors=True)
def constraint_impulse(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    *,
    row_velocity: ArrayLike | None = None,
    **options: Unpack[CallOptions],
) -> Impulse:
    """Velocity jump when constraints are switched on: momentum-consistent, all rows together.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    row_velocity : array_like, shape (..., rows), optional
        Velocity along each row after the impact. Default: what the system prescribes, which is zero
        except for `Motor` and `Rows` with rates.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    Impulse
        v⁺ (..., nv) and the impulses p (..., rows) in N·s and N·m·s.

    Notes
    -----
    ℳ (v⁺ − v) = −(A J)* p with A J v⁺ = `row_velocity`. It is the projection of v on the
    constraints in the mass metric; kinetic energy is lost as in Carnot's theorem, KE − KE⁺ = ½ p* A
    Λ A* p. **Cost:** four sweeps and the elimination of the rows. **Source:** theory/closed-chains
    11.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> weld = pp.constraints.Coupling(name="lock", joints=[arm.joint_names[1]], coefficients=[1])
    >>> after, p = pp.constraint_impulse(pp.System(arm, [weld]), [0.0, 0.0], [1.0, 1.0])
    >>> after.round(4).tolist()
    [1.3125, 0.0]
    """
    tree_of(model, constraint_impulse)
    calls = Calls(options)
    if not model.n_rows:
        q, v = state_arrays(model.model, q=q, v=v)
        batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
        same = np.array(np.broadcast_to(v, (*batch, model.nv)))
        return calls.finish(Impulse(same, np.zeros((*batch, 0))), batch)
    wanted = model.rates if row_velocity is None else row_velocity  # type: ignore[attr-defined]
    program = program_of((VELOCITY_CHANGE, IMPULSE), model)
    if program.resolve is None:
        program.resolve = partial(_impulses, rows_of(model))
    change, p = calls(program, q, v, wanted)
    return calls.finish(Impulse(np.asarray(v, dtype=np.float64) - change, p))


@supports(loops=True, flexible=True, rotors=True)
def delassus_matrix(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Delassus matrix A Λ A*: constraint multipliers → accelerations of the rows.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., rows, rows)
        The matrix; symmetric, and semidefinite where rows are redundant.

    Notes
    -----
    By the recursion for Λ along the paths of the closure frames, never through ℳ⁻¹. **Cost:** O(N +
    rows · depth + rows²). **Source:** SOA eq. .43, tree form.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> pin = pp.constraints.Spherical(name="pin", a="tip", b=("world", (2, 0, 0)))
    >>> pp.delassus_matrix(pp.System(arm, [pin]), [0.0, 0.0]).round(3)
    array([[0.   , 0.   , 0.   ],
           [0.   , 3.429, 0.   ],
           [0.   , 0.   , 0.   ]])
    """
    if not getattr(model, "n_rows", 0):
        model = tree_of(model, delassus_matrix)
        (q,) = state_arrays(model.model, q=q)
        return Calls(options).finish(np.zeros((*q.shape[:-1], 0, 0)), q.shape[:-1])
    return evaluate(_ROW_MATRIX, None, model, (q,), options)


def _program(
    system: Model,
    f_ext: ArrayLike | None,
    row_acceleration: ArrayLike | None,
    algorithm: str | None,
) -> tuple[Program, tuple[ArrayLike, ...]]:
    if algorithm is not None:
        one_of("algorithm", algorithm, (*FORMS, "secondary"), "The default is None.")
    pair = forward_with_rows(algorithm, f_ext is not None, row_acceleration is not None)
    extras = tuple(x for x in (f_ext, row_acceleration) if x is not None)
    if algorithm is None:
        program = program_of(pair, system)
    else:
        program = compile(pair, system, rewrite="as_written")
    if program.resolve is None:
        program.resolve = partial(_accelerations, rows_of(system))
    return program, extras


# ---- rows in doubt -----------------------------------------------------------------------------
#
# Machine code eliminates rows in a fixed order and takes a pivot that is rounding error for a row
# that follows from those before it. Where such a row then asks for something else than they give,
# the row may be independent after all (near a singular configuration), the loops may be open a
# little, or the constraints contradict each other. These elements of a batch are flagged, and are
# solved here by singular values. Those of G L⁻*, ℳ = L L*, are the roots of those of A Λ A*, so
# that rows count as independent down to 1e-9 of the largest instead of 1e-5, and not down to what
# the gap of the loops explains (`row_rank`): redundant rows are as far from dependent as the loops
# are open.


def _accelerations(rows: ClosureRows, inputs: Inputs) -> tuple[tuple[Array, Array], Array]:
    """(vdot, f) of constrained dynamics at n states, and a status for each."""
    q, v, tau = (inputs[name] for name in ("q", "v", "tau"))
    loads = [inputs["f_ext"]] if "f_ext" in inputs else []
    free = program_of(loaded(forward, bool(loads)), rows.model)(q, v, tau, *loads)
    at = ConstraintMetric(rows, q)
    vdot, f, gap = at.accelerations(free, inputs.get("Udot", 0.0) - rows.bias(q, v))
    return (vdot, f), _status(at, gap)


def _impulses(rows: ClosureRows, inputs: Inputs) -> tuple[tuple[Array, Array], Array]:
    """(v − v⁺, p) of rows that are switched on at n states, and a status for each."""
    q, v = inputs["q"], inputs["v"]
    at = ConstraintMetric(rows, q)
    wanted = np.einsum("nrv,nv->nr", at.jacobian, v) - inputs["Udot"]
    return (at.solve(wanted), at.multipliers(wanted)), _status(at, wanted)


def _status(at: ConstraintMetric, gap: Array) -> Array:
    """0, or that of the row that is furthest from the motions that the others allow."""
    row, amount = at.contradicted(gap)
    return np.where(amount > 0, CONTRADICTION + 8 * (row + 1), 0)
