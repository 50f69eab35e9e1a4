"""Equations of motion: inverse and forward dynamics, inertias, bias forces, reactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import dynamics
from phipsi.algorithms.dynamics.dynamics_expressions import (
    FORWARD_DYNAMICS,
    INVERSE_DYNAMICS,
    TREE_FORMS,
    forward,
    inverse,
    loaded,
    reactions,
    reactions_and_motion,
)
from phipsi.core.backends import CallOptions, Calls, Program, in_order, state_arrays
from phipsi.core.compiler import NamedForm, compile, evaluate, program_at, program_of
from phipsi.core.expressions import Expr
from phipsi.core.model import Model, PointSet, mechanism_of, supports, tree_of
from phipsi.core.operators import B
from phipsi.errors import InputError, one_of, true_or_false

if TYPE_CHECKING:
    from phipsi.algorithms.dynamics.body_accelerations import ForwardMotion
    from phipsi.algorithms.dynamics.constraint_forces import Dynamics, Reactions

Array = NDArray[Any]
Points = Sequence[Any] | PointSet


def _program(
    form: Callable[[Expr], Any],
    tree: Model,
    external: ArrayLike | None,
    points: Points | None,
    tip: ArrayLike | None,
    rewrite: str = "full",
) -> tuple[Program, tuple[ArrayLike, ...]]:
    """The program of a form, and the loads it takes as last inputs."""
    _check_tip(points, tip)
    expr = loaded(form, external is not None, tip is not None)
    loads = tuple(x for x in (external, tip) if x is not None)
    if points is None:
        return program_of(expr, tree, rewrite=rewrite), loads
    if rewrite == "full" and type(points) in (list, tuple):
        return program_at(expr, tree, points, "world", inverse_dynamics), loads
    return compile(expr, tree, points=points, rewrite=rewrite), loads


_PLAIN_INVERSE, _PLAIN_FORWARD = NamedForm(INVERSE_DYNAMICS), NamedForm(FORWARD_DYNAMICS)
_EXTERNAL_INVERSE, _EXTERNAL_FORWARD = (
    NamedForm(loaded(form, True)) for form in (inverse, forward)
)
# Where `program_of` and `program_at` keep the programs of trees. A system with constraints has none
# of them, because its way is another one.
_PLAIN_REACTIONS, _EXTERNAL_REACTIONS = (
    (loaded(reactions, external), "apply", "as_written") for external in (False, True)
)


def _kept(model: Any, key: Any) -> Program | None:
    """The shortest way for single calls: a program that was found before."""
    try:
        return model.cache.get(key)
    except AttributeError:  # not a model, which is reported later
        return None


def _kept_at(
    form: Callable[[Expr], Any],
    model: Any,
    f_ext: ArrayLike | None,
    points: Any,
    f0: ArrayLike,
) -> tuple[Program | None, tuple[ArrayLike, ...]]:
    """The same with forces at points, and the loads it takes as last inputs."""
    loads = (f0,) if f_ext is None else (f_ext, f0)
    try:
        key = (loaded(form, f_ext is not None, True), "apply", "world", tuple(points))
        return model.cache.get(key), loads
    except (AttributeError, TypeError):  # not a model, or points that are no keys
        return None, loads


def _check_tip(points: Points | None, tip: ArrayLike | None) -> None:
    if (points is None) != (tip is None):
        given, missing = ("points", "f0") if tip is None else ("f0", "points")
        raise InputError(
            f"{given}= was given without {missing}=: f0 are forces at points, so both are needed:\n"
            "    points=[('hand', (0, 0, 0.1))], f0=[[0, 0, 0, 0, 0, 10]]"
        )


def _on_bodies(
    tree: Model, q: ArrayLike, f_ext: ArrayLike | None, points: Points | None, f0: ArrayLike | None
) -> ArrayLike | None:
    """All loads as forces on bodies: f_ext − B f0."""
    _check_tip(points, f0)
    if f0 is None:
        return f_ext
    at_points = compile(B, tree, points=points)(q, f0)
    return -at_points if f_ext is None else np.asarray(f_ext, dtype=np.float64) - at_points


# ---- the named functions ----------------------------------------------------------------------


class _Loads(CallOptions, total=False):
    points: Points | None
    f0: ArrayLike | None


class _ActuationOptions(_Loads, total=False):
    actuated: Sequence[str] | None
    weights: ArrayLike | None


class _Forced(_Loads, total=False):
    algorithm: str | None
    row_acceleration: ArrayLike | None


@overload
def inverse_dynamics(
    model: Model, q: ArrayLike, v: ArrayLike, vdot: ArrayLike, f_ext: ArrayLike | None = None, *,
    return_multipliers: Literal[False] = False, **more: Unpack[_ActuationOptions],
) -> Array: ...  # fmt: skip


@overload
def inverse_dynamics(
    model: Model, q: ArrayLike, v: ArrayLike, vdot: ArrayLike, f_ext: ArrayLike | None = None, *,
    return_multipliers: Literal[True], **more: Unpack[_ActuationOptions],
) -> Dynamics: ...  # fmt: skip


@supports(loops=True, flexible=True, rotors=True)
def inverse_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vdot: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    points: Points | None = None,
    f0: ArrayLike | None = None,
    actuated: Sequence[str] | None = None,
    weights: ArrayLike | None = None,
    return_multipliers: bool = False,
    **options: Unpack[CallOptions],
) -> Array | Dynamics:
    """Joint torques and forces that a motion needs (recursive Newton–Euler).

    In N·m for revolute and N for prismatic joints, in the directions of v.

    With constraints, only the part of tau along admissible motions matters, so tau depends on which
    joints are actuated. It is zero at the others; where there are more actuated joints than degrees
    of freedom it minimises Σ weights · tau², and f has minimum norm among the multipliers with that
    tau.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, which must keep the constraints.
    vdot : array_like, shape (..., nv)
        Generalized accelerations, which must keep the constraints.
    f_ext : array_like, shape (..., n, 6), optional
        External force on each body at its origin in body axes, [moment (N·m); force (N)]. Default:
        none.
    points : sequence, optional
        Points at which `f0` acts, as for `jacobian`. Default: none.
    f0 : array_like, shape (..., nC, 6), optional
        Forces exerted by the mechanism at `points` (the papers' sign), in world axes, [moment;
        force].
    actuated : sequence of str, optional
        Names of the joints that have a drive. Default: all.
    weights : array_like, shape (nv,), optional
        Cost of each joint torque, above 0. Default: 1.
    return_multipliers : bool, optional
        Whether to return the multipliers too. Default: False.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    tau : ndarray, shape (..., nv)
        Joint torques and forces, or with `return_multipliers` a `Dynamics` (vdot, tau, f).

    Raises
    ------
    InputError
        If v or vdot break the constraints, or if the actuated joints do not suffice: the error then
        names the joints of the motion that lacks a drive, and how much is missing.

    See Also
    --------
    forward_dynamics : The accelerations that torques cause.
    gravity_forces : The torques that hold the mechanism still.

    Notes
    -----
    tau = H φ [M φ* (H* vdot + a + gravity) + b − f_ext + B f0] + Jr vdot. With constraints, tau =
    ID(q, v, vdot) + (A J)* f and Z* tau = Z* ID with Z = null(A J).

    **Cost:** two sweeps, O(N); with constraints or `actuated` O(nv³), dense. **Source:** SOA eq.
    0.1; MM eq. 6–12; theory/closed-chains 2 (KKT).

    Examples
    --------
    >>> import numpy as np, phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> pp.inverse_dynamics(arm, [0.0], [0.0], [0.0])            # hold a rod of 1 kg and 1 m
    array([4.905])
    >>> pin = pp.constraints.Revolute((0, 0, 1), name="pin", a="tip", b=("world", (1.5, 0, 0)))
    >>> four_bar = pp.System(pp.examples.planar_arm(3), [pin])
    >>> q, rest = four_bar.assemble([1.0, -1.0, -1.5]), np.zeros(3)
    >>> held = pp.inverse_dynamics(four_bar, q, rest, rest, actuated=["joint1"])
    >>> bool(abs(pp.forward_dynamics(four_bar, q, rest, held)).max() < 1e-9)
    True
    """
    if return_multipliers is not False:
        return_multipliers = true_or_false("return_multipliers", return_multipliers)
    if actuated is weights is None and not return_multipliers and not getattr(model, "n_rows", 0):
        if f_ext is points is f0 is None:
            return evaluate(_PLAIN_INVERSE, inverse_dynamics, model, (q, v, vdot), options)
        if points is f0 is None:
            args = (q, v, vdot, f_ext)
            return evaluate(_EXTERNAL_INVERSE, inverse_dynamics, model, args, options)
        if f0 is not None:
            program, loads = _kept_at(inverse, model, f_ext, points, f0)
            if program is not None:
                return program.evaluate((q, v, vdot, *loads), options)
    tree = tree_of(model, inverse_dynamics)
    program, loads = _program(inverse, tree if model.n_rows else model, f_ext, points, f0)
    if not model.n_rows and actuated is weights is None and not return_multipliers:
        return program(q, v, vdot, *loads, **options)
    calls = Calls(options)
    q, v, vdot = state_arrays(tree, finite=calls.raises, q=q, v=v, vdot=vdot)
    drives = dynamics.actuation.Actuation(model, actuated, weights)
    needed = calls(program, q, v, vdot, *loads)
    efforts, f = calls.solve(drives.efforts, q, v, vdot, needed)
    vdot = np.broadcast_to(vdot, efforts.shape)
    return calls.finish(
        dynamics.constraint_forces.Dynamics(vdot, efforts, f) if return_multipliers else efforts
    )


@overload
def forward_dynamics(
    model: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike, f_ext: ArrayLike | None = None, *,
    return_multipliers: Literal[False] = False, **more: Unpack[_Forced],
) -> Array: ...  # fmt: skip


@overload
def forward_dynamics(
    model: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike, f_ext: ArrayLike | None = None, *,
    return_multipliers: Literal[True], **more: Unpack[_Forced],
) -> Dynamics: ...  # fmt: skip


@overload
def forward_dynamics(
    model: Model, q: ArrayLike, v: ArrayLike, tau: ArrayLike, f_ext: ArrayLike | None = None, *,
    return_accelerations: Literal[True], **more: Unpack[_Forced],
) -> ForwardMotion: ...  # fmt: skip


@supports(loops=True, flexible=True, rotors=True)
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
    row_acceleration: ArrayLike | None = None,
    return_multipliers: bool = False,
    return_accelerations: bool = False,
    **options: Unpack[CallOptions],
) -> Array | Dynamics | ForwardMotion:
    """Joint accelerations from joint torques and forces (forward dynamics).

    vdot = ℳ⁻¹ (tau − bias + external forces), computed in O(N) without forming ℳ. With constraints
    the accelerations obey them. Where rows are redundant vdot is unique, and f is one of the
    possible multipliers: zero on rows that follow from others (`constraint_forces` gives the
    minimum-norm ones).

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
    points : sequence, optional
        Points at which `f0` acts, as for `jacobian`, or whose accelerations are returned. Default:
        none.
    f0 : array_like, shape (..., nC, 6), optional
        Forces exerted by the mechanism at `points` (the papers' sign), in world axes, [moment;
        force].
    algorithm : str, optional
        A form of the papers, evaluated exactly as written: "FD1" … "FD4" for trees; "A-F", "0.37",
        "RCCFD1" … "RCCFD3" and "secondary" with constraints. Default: None, the fastest form.
    row_acceleration : array_like, shape (..., rows), optional
        U̇, the rate of the velocities that rows prescribe. Default: zero.
    return_multipliers : bool, optional
        Whether to return the multipliers too. Default: False.
    return_accelerations : bool, optional
        Whether to return the spatial accelerations of the bodies, and of the `points`, too: α and
        α(0) of the papers, without gravity. "FD2" computes them in its own sweeps. Default: False.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    vdot : ndarray, shape (..., nv)
        Joint accelerations in rad/s² and m/s² in the directions of v, or with `return_multipliers`
        a `Dynamics` (vdot, tau, f), with `return_accelerations` a `ForwardMotion` (vdot,
        accelerations, point_accelerations).

    Raises
    ------
    SingularHingeError
        If a joint has no inertia to move.

    See Also
    --------
    inverse_dynamics : The torques of a given motion.
    constraint_forces : The multipliers of the constraints.
    hybrid_dynamics : Some accelerations prescribed, the others computed.

    Notes
    -----
    vdot = ℳ⁻¹ (tau − H φ [M φ* (a + gravity) + b − f_ext + B f0]), which the compiler turns into
    the innovations form. The papers' four forms, with a' = a + gravity, w = b − f_ext + B f0 and W
    = I − H ψ K:

        FD1  vdot = W* D⁻¹ W (tau − H φ [M φ* a' + w])
        FD2  ν = D⁻¹ W (tau − H φ [M φ* a' + w]),  vdot = W* ν,  and  α = ψ* H* ν + φ* a'
        FD3  vdot = W* D⁻¹ (tau − H ψ [K tau + M φ* a' + w])
        FD4  vdot = W* D⁻¹ (W tau − H ψ̃ P a' − H ψ w) − K* ψ* π̄* a' − G* a'

    FD4 in body axes is the articulated-body algorithm. With constraints, ℳ vdot = tau − bias − (A
    J)* f with A J vdot = U, U = Udot − d/dt(A J) v. "secondary" solves for the small secondary
    system, with the primary one reflected into it.

    **Cost:** three sweeps, O(N); with constraints five, and the elimination of the rows: O(rows)
    for loops of separate trees, O(rows³) where all are coupled. **Source:** MM sec. VII; 88-11 sec.
    4–5; SOA steps A–F; 88-11 Part II RCCFD2.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> pp.forward_dynamics(arm, [0.0], [0.0], [0.0])            # a rod released: 3 g / 2 l
    array([-14.715])
    >>> pin = pp.constraints.Spherical(name="pin", a="tip", b=("world", (1.5, 0, 0)))
    >>> four_bar = pp.System(pp.examples.planar_arm(3), [pin])
    >>> q = four_bar.assemble([1.0, -1.0, -1.5])
    >>> rest = [0, 0, 0]
    >>> vdot, tau, f = pp.forward_dynamics(four_bar, q, rest, rest, return_multipliers=True)
    >>> vdot.shape, f.shape
    ((3,), (3,))
    >>> moves = pp.forward_dynamics(arm, [0.0], [0.0], [0.0], algorithm="FD2", points=["tip"],
    ...                             return_accelerations=True)
    >>> moves.point_accelerations.round(3)
    array([[  0.   ,   0.   , -14.715,   0.   , -14.715,   0.   ]])
    """
    if return_multipliers is not False:
        return_multipliers = true_or_false("return_multipliers", return_multipliers)
    if return_accelerations is not False and true_or_false(
        "return_accelerations", return_accelerations
    ):
        return _with_accelerations(
            model, q, v, tau, f_ext, points, f0, algorithm, row_acceleration, return_multipliers,
            options,
        )  # fmt: skip
    if algorithm is row_acceleration is None and not return_multipliers:
        if f_ext is points is f0 is None:
            if not getattr(model, "n_rows", 0):
                return evaluate(_PLAIN_FORWARD, forward_dynamics, model, (q, v, tau), options)
            program = _kept(model, dynamics.constraint_forces.motion_and_multipliers)
            if program is not None and not options:
                return program(q, v, tau)[0]
        elif points is f0 is None:
            if not getattr(model, "n_rows", 0):
                args = (q, v, tau, f_ext)
                return evaluate(_EXTERNAL_FORWARD, forward_dynamics, model, args, options)
        elif f0 is not None:
            program, loads = _kept_at(forward, model, f_ext, points, f0)
            if program is not None:
                return program.evaluate((q, v, tau, *loads), options)
    tree = tree_of(model, forward_dynamics)
    if model.n_rows or return_multipliers:
        return _with_constraints(
            model, q, v, tau, _on_bodies(tree, q, f_ext, points, f0), row_acceleration, algorithm,
            return_multipliers,
            options,
        )  # fmt: skip
    if row_acceleration is not None:
        dynamics.constraint_forces.reject_row_acceleration(row_acceleration)
    if algorithm is None:
        program, loads = _program(forward, model, f_ext, points, f0)
        return program(q, v, tau, *loads, **options)
    form = TREE_FORMS[one_of("algorithm", algorithm, TREE_FORMS, "The default is None.")]
    program, loads = _program(form, model, f_ext, points, f0, "as_written")
    calls = Calls(options)
    found = calls(program, q, v, tau, *loads)
    return calls.finish(in_order(found)[0])


def _with_accelerations(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None,
    points: Points | None,
    f0: ArrayLike | None,
    algorithm: str | None,
    row_acceleration: ArrayLike | None,
    return_multipliers: bool,
    options: CallOptions,
) -> ForwardMotion:
    """The accelerations of the bodies too: by FD2 in its own sweeps, otherwise from vdot."""
    if return_multipliers:
        raise InputError(
            "return_accelerations=True cannot be combined with return_multipliers=True. Call "
            "pp.constraint_forces(system, q, v, tau) for the multipliers"
        )
    if f0 is not None:
        _check_tip(points, f0)
    if "out" in options:
        raise InputError(
            "return_accelerations=True cannot be combined with out=: it returns three arrays"
        )
    tree = tree_of(model, forward_dynamics)
    motion = dynamics.body_accelerations
    if algorithm == "FD2" and not model.n_rows and row_acceleration is None:
        return motion.motion_of_fd2(tree, q, v, tau, f_ext, points, f0, options)
    at = None if f0 is None else points

    def vdot() -> Array:
        return forward_dynamics(
            model, q, v, tau, f_ext, points=at, f0=f0, algorithm=algorithm,
            row_acceleration=row_acceleration, **options,
        )  # fmt: skip

    return motion.motion_after(vdot, model, q, v, points, options)


def _with_constraints(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None,
    row_acceleration: ArrayLike | None,
    algorithm: str | None,
    return_multipliers: bool,
    options: CallOptions,
) -> Any:
    """vdot, or the whole solution of the equations of motion."""
    calls = Calls(options)
    rows = dynamics.constraint_forces
    vdot, f = rows.motion_and_multipliers(
        model, q, v, tau, f_ext, row_acceleration=row_acceleration, algorithm=algorithm, calls=calls
    )
    efforts = np.broadcast_to(np.asarray(tau, dtype=np.float64), vdot.shape)
    return calls.finish(
        dynamics.constraint_forces.Dynamics(vdot, efforts, f) if return_multipliers else vdot
    )


@supports(loops=True, flexible=True, rotors=True)
def joint_reactions(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None = None,
    *,
    row_acceleration: ArrayLike | None = None,
    **options: Unpack[CallOptions],
) -> Reactions:
    """Joint reaction forces: whole forces through every joint and closure in forward dynamics.

    Row k of `joints` is the force exerted by the parent on body k, at O(k), in body axes, [moment
    (N·m), force (N)]. It contains the torque of the actuator: H f = tau − Jr vdot. The rotor of a
    geared motor is part of the body that carries it. `closures` are the forces −A* λ of the
    closures on their frames. Where rows are redundant, rigid bodies determine only some components
    of the reactions, and those of the minimum-norm λ are returned.

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
        Rate of the velocities that rows prescribe, as for `forward_dynamics`. Default: zero.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    Reactions
        `joints` (..., n, 6), `closures` (..., frames, 6) at each frame in its axes, in the order of
        `model.closures.points.names`; a tree has none.

    Notes
    -----
    f = φ [M φ* (H* vdot + a + gravity) + b − f_ext + B A* λ] with vdot in the form FD3, and with
    the multipliers λ of `constraint_forces` where there are constraints. **Cost:** four sweeps,
    O(N); with constraints that of `constraint_forces` and two sweeps. **Source:**
    theory/open-chains 11.1.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(1)
    >>> pp.joint_reactions(arm, [0.0], [0.0], [4.905]).joints.round(3)     # at rest: the weight
    array([[0.   , 0.   , 4.905, 0.   , 9.81 , 0.   ]])
    >>> string = pp.constraints.Distance(1.0, name="string", a="tip", b=("world", (1.0, 1.0, 0)))
    >>> held = pp.joint_reactions(pp.System(arm, [string]), [0.0], [0.0], [0.0])
    >>> held.joints[0, 4:5].round(3), held.closures[0, 4:5].round(3)       # half the weight each
    (array([4.905]), array([4.905]))
    """
    rows = dynamics.constraint_forces
    if row_acceleration is None and not options:
        program = _kept(model, _PLAIN_REACTIONS if f_ext is None else _EXTERNAL_REACTIONS)
        if program is not None:
            found = program(q, v, tau) if f_ext is None else program(q, v, tau, f_ext)
            return rows.Reactions(found, np.zeros((*found.shape[:-2], 0, 6)))
    calls = Calls(options)
    if mechanism_of(model, joint_reactions).n_rows:
        return calls.finish(
            dynamics.constraint_forces.hinge_reactions(
                model, q, v, tau, f_ext, row_acceleration=row_acceleration, calls=calls
            )
        )
    if row_acceleration is not None:
        dynamics.constraint_forces.reject_row_acceleration(row_acceleration)
    attached = model.description.attachments
    if attached.with_inertia:
        attached.check_momentum(model, "joint_reactions")
        program, loads = _program(reactions_and_motion, model, f_ext, None, None, "as_written")
        found, vdot, V, A = calls(program, q, v, tau, *loads)
        found = attached.joint_forces(model, found, q, v, vdot, V, A)
    else:
        program, loads = _program(reactions, model, f_ext, None, None, "as_written")
        found = calls(program, q, v, tau, *loads)
    return calls.finish(
        dynamics.constraint_forces.Reactions(found, np.zeros((*found.shape[:-2], 0, 6)))
    )
