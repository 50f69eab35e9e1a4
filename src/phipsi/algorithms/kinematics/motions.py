"""Poses, velocities, accelerations and Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core import calculus
from phipsi.core.backends import CallOptions, Calls
from phipsi.core.compiler import NamedForm, evaluate, program_at, program_of
from phipsi.core.expressions import Expr
from phipsi.core.model import UNAFFECTED, Model, PointSet, as_list, supports, tree_of
from phipsi.core.operators import (
    B,
    Bdot,
    E_phi,
    H,
    Hdot,
    J,
    V,
    a,
    cross,
    frame_pose,
    phi,
    pose,
    s_gauge,
    v,
    vdot,
)
from phipsi.errors import is_a, true_or_false

Array = NDArray[Any]
Points = Sequence[Any]

# d/dt E_φ* = −cross(H* v) E_φ*, so that d/dt φ* = −φ* cross(H* v) E_φ* φ*
VELOCITY_MAP = phi.T @ H.T
VELOCITY_MAP_DOT = phi.T @ (Hdot.T - cross(H.T @ v) @ E_phi.T @ phi.T @ H.T)

ACCELERATIONS = phi.T @ (H.T @ vdot + a)
CLASSICAL_ACCELERATIONS = ACCELERATIONS + s_gauge
POINT_VELOCITIES = B.T @ V
POINT_ACCELERATIONS = B.T @ ACCELERATIONS
JACOBIAN_DOT = Bdot.T @ VELOCITY_MAP + B.T @ VELOCITY_MAP_DOT
JACOBIAN_DOT_V = Bdot.T @ V + B.T @ phi.T @ a

_POSES, _VELOCITIES = NamedForm(pose), NamedForm(V)
_ACCELERATIONS, _CLASSICAL_ACCELERATIONS = (
    NamedForm(ACCELERATIONS),
    NamedForm(CLASSICAL_ACCELERATIONS),
)


@cache
def jacobian_dot_with_modes() -> Expr:
    """J̇ of mechanisms with flexible bodies, whose ports move."""
    return calculus.differentiation.diff(J, "q", along=v, modes=True)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def poses(
    model: Model,
    q: ArrayLike,
    points: Points | PointSet | None = None,
    **options: Unpack[CallOptions],
) -> Array:
    """Poses in the world (forward kinematics): of every body, or of given points.

    Homogeneous matrices ``[[R, p], [0, 1]]``: R turns components in body or frame axes into world
    components, p is the origin in m, world axes.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    points : sequence, optional
        Names of bodies, of frames or "world", or pairs (name, offset in m in the axes of that
        frame). ``model.frames`` gives every frame. Default: every body.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., len(points), 4, 4)
        The poses, or (..., n, 4, 4) of all bodies.

    Notes
    -----
    X_WB(k) = X_WB(parent) X(k), the base-to-tip product of the hinge poses, and X_WF = X_WB X_BF of
    a frame F fixed in body B. **Cost:** one base-to-tip sweep and one product per point.
    **Source:** theory/open-chains 2.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.poses(arm, [0.0, 0.5])[1, :3, 3]
    array([1., 0., 0.])
    >>> pp.poses(arm, [0.0, 0.0], ["tip"])[0, :3, 3]
    array([2., 0., 0.])
    """
    if points is None:
        return evaluate(_POSES, poses, model, (q,), options)
    named = _listed(points)
    if not len(named):
        return _no_points(pose, model, poses, options, q)
    return program_at(frame_pose, model, named, "world", poses).evaluate((q,), options)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def velocities(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    points: Points | None = None,
    *,
    axes: str | None = None,
    **options: Unpack[CallOptions],
) -> Array:
    """Spatial velocities: of every body, or of given points.

    Relative to the world, [angular (rad/s), linear (m/s)].

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    points : sequence, optional
        Names of bodies, of frames or "world", or pairs (name, offset in m in the axes of that
        frame). ``model.frames`` gives every frame. Default: every body.
    axes : {"world", "body", "spatial"}, optional
        At the origin of the body or frame in world axes; there in its own axes; or at the world's
        origin in world axes. Default: "world" for points, as in `jacobian`; "body" without points.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., len(points), 6)
        The velocities, or (..., n, 6) of all bodies.

    Notes
    -----
    V = φ* H* v, and V_F = B* V with B carrying the points. **Cost:** one base-to-tip sweep.
    **Source:** SOA eq. 0.1 and 0.18.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> pp.velocities(arm, [0.0, 0.0], [1.0, 1.0])[1]
    array([0., 0., 2., 0., 1., 0.])
    >>> pp.velocities(arm, [0.0, 0.0], [1.0, 1.0], ["tip"])
    array([[0., 0., 2., 0., 3., 0.]])
    >>> pp.jacobian(arm, [0.0, 0.0], ["tip"]) @ [1.0, 1.0]
    array([0., 0., 2., 0., 3., 0.])
    """
    axes = _axes_of(points) if axes is None else axes
    if points is None and is_a(axes, str) and axes == "body":
        return evaluate(_VELOCITIES, velocities, model, (q, v), options)
    named = _bodies_or(points, model, velocities)
    if not len(named):
        return _no_points(V, model, velocities, options, q, v)
    program = program_at(POINT_VELOCITIES, model, named, axes, velocities)
    return program.evaluate((q, v), options)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def accelerations(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vdot: ArrayLike,
    points: Points | None = None,
    *,
    axes: str | None = None,
    classical: bool = False,
    **options: Unpack[CallOptions],
) -> Array:
    """Spatial accelerations, without gravity: of every body, or of given points.

    The time derivative of the components of V, [angular (rad/s²), linear (m/s²)].

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    vdot : array_like, shape (..., nv)
        Generalized accelerations, rad/s² or m/s².
    points : sequence, optional
        Names of bodies, of frames or "world", or pairs (name, offset in m in the axes of that
        frame). ``model.frames`` gives every frame. Default: every body.
    axes : {"world", "body", "spatial"}, optional
        At the origin of the body or frame in world axes; there in its own axes; or at the world's
        origin in world axes. Default: "world" for points, as in `jacobian`; "body" without points.
    classical : bool, optional
        Whether the linear part is the acceleration of the point itself, A + s with s = [0; ω × v],
        the papers' α; in world axes that is d²p/dt² and equals J vdot + J̇ v. Default: False.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., len(points), 6)
        The accelerations, or (..., n, 6) of all bodies.

    Notes
    -----
    A = φ* (H* vdot + a), and A_F = B* A with B carrying the points. **Cost:** one base-to-tip
    sweep. **Source:** SOA eq. 0.2 and 0.18; theory/open-chains 4.3.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm, q, v, vdot = pp.examples.planar_arm(2), [0.0, 0.0], [1.0, 0.0], [0.0, 0.0]
    >>> pp.accelerations(arm, q, v, vdot, classical=True)[1]
    array([ 0.,  0.,  0., -1.,  0.,  0.])
    >>> pp.accelerations(arm, q, v, vdot, ["tip"], classical=True)
    array([[ 0.,  0.,  0., -2.,  0.,  0.]])
    """
    if classical is not False:
        classical = true_or_false("classical", classical)
    axes = _axes_of(points) if axes is None else axes
    if points is None and is_a(axes, str) and axes == "body":
        form = _CLASSICAL_ACCELERATIONS if classical else _ACCELERATIONS
        return evaluate(form, accelerations, model, (q, v, vdot), options)
    named = _bodies_or(points, model, accelerations)
    if not len(named):
        return _no_points(ACCELERATIONS, model, accelerations, options, q, v, vdot)
    if not classical:
        program = program_at(POINT_ACCELERATIONS, model, named, axes, accelerations)
        return program.evaluate((q, v, vdot), options)
    calls, pair = Calls(options), (POINT_ACCELERATIONS, POINT_VELOCITIES)
    out, motion = calls(program_at(pair, model, named, axes, accelerations), q, v, vdot)
    out[..., 3:] += np.cross(motion[..., :3], motion[..., 3:])
    return calls.finish(out)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def jacobian(
    model: Model,
    q: ArrayLike,
    points: Points,
    *,
    axes: str = "world",
    **options: Unpack[CallOptions],
) -> Array:
    """Geometric Jacobian of points: generalized velocities → velocities of the points.

    Six rows per point, [angular (rad/s); linear (m/s)].

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    points : sequence
        Names of bodies or frames, or pairs (name, offset) with the offset in m in the axes of the
        body or frame.
    axes : {"world", "body", "spatial"}, optional
        At the point in world axes; at the point in the axes of the named body or frame; or at the
        world's origin in world axes. Default: "world".
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., 6 nC, nv)
        The Jacobian.

    Notes
    -----
    J = B* φ* H*. **Cost:** O(N) per row or column, whichever are fewer. **Source:** SOA eq.
    0.16–0.18.

    Examples
    --------
    >>> from phipsi import jacobian
    >>> from phipsi.examples import planar_arm
    >>> jacobian(planar_arm(2), [0.0, 0.0], [("link2", (1, 0, 0))])[[2, 4]]
    array([[1., 1.],
           [2., 1.]])
    """
    return program_at(J, model, points, axes, jacobian, "dense").evaluate((q,), options)


@supports(loops=UNAFFECTED, contacts=UNAFFECTED, flexible=True, rotors=True)
def jacobian_dot(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    points: Points,
    *,
    axes: str = "world",
    times_v: bool = False,
    **options: Unpack[CallOptions],
) -> Array:
    """Time derivative of the Jacobian of points, or its product with v.

    It is the derivative of the components that `jacobian` returns with the same `axes`. With
    ``times_v=True`` it is J̇ v, the acceleration of the points that the velocities alone cause: in
    world axes the classical one at vdot = 0, without gravity, [angular (rad/s²); linear (m/s²)].

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    q : array_like, shape (..., nq)
        Configuration.
    v : array_like, shape (..., nv)
        Generalized velocities, rad/s or m/s.
    points : sequence
        Names of bodies or frames, or pairs (name, offset) with the offset in m in the axes of the
        body or frame.
    axes : {"world", "body", "spatial"}, optional
        At the point in world axes; at the point in the axes of the named body or frame; or at the
        world's origin in world axes. Default: "world".
    times_v : bool, optional
        Whether to return J̇ v instead of J̇. Default: False.
    **options
        `threads`, `out` and `on_error`, as for a compiled program.

    Returns
    -------
    ndarray, shape (..., 6 nC, nv)
        1/s times the units of J, or J̇ v (..., 6 nC).

    Notes
    -----
    J̇ = Ḃ* φ* H* + B* φ* (Ḣ* − cross(H* v) E_φ* φ* H*), because d/dt E_φ* = −cross(H* v) E_φ* (and
    Ė{H* v}* of the ports of flexible bodies); J̇ v = Ḃ* V + B* φ* a. **Cost:** O(N) per row or
    column, whichever are fewer; of J̇ v one base-to-tip sweep. **Source:** theory/open-chains 4.3
    and 6; MM sec. V.A.

    Examples
    --------
    >>> from phipsi import jacobian_dot
    >>> from phipsi.examples import planar_arm
    >>> arm, q, v, tip = planar_arm(2), [0.0, 0.0], [1.0, 0.0], [("link2", (1, 0, 0))]
    >>> jacobian_dot(arm, q, v, tip)[3]
    array([-2., -1.])
    >>> jacobian_dot(arm, q, v, tip, times_v=True)
    array([ 0.,  0.,  0., -2.,  0.,  0.])
    """
    if times_v is not False and true_or_false("times_v", times_v):
        calls = Calls(options)
        rates = calls(program_at(JACOBIAN_DOT_V, model, points, axes, jacobian_dot), q, v)
        return calls.finish(rates.reshape(*rates.shape[:-2], 6 * rates.shape[-2]))
    modal = bool(getattr(model, "has_more_rows", False))
    form = jacobian_dot_with_modes() if modal else JACOBIAN_DOT
    program = program_at(form, model, points, axes, jacobian_dot, "dense")
    return program.evaluate((q, v), options)


def _axes_of(points: Any) -> str:
    """The axes of velocities by default: those of `jacobian` for points, else those of the body."""
    return "body" if points is None else "world"


def _bodies_or(points: Any, model: Model, function: Callable[..., Any]) -> Any:
    """The points given, or the names of all bodies."""
    return tree_of(model, function).body_names if points is None else _listed(points)


def _listed(points: Any) -> Any:
    """Points as a sequence: of other collections, such as keys, a list."""
    if type(points) in (list, tuple) or is_a(points, (Sequence, PointSet)):
        return points
    return as_list("points", points, "['hand']")


def _no_points(
    expr: Expr, model: Model, function: Callable[..., Any], options: CallOptions, *args: ArrayLike
) -> Any:
    """The same quantity of the bodies without any of them: arguments are checked as ever."""
    calls = Calls(options)
    found = calls(program_of(expr, tree_of(model, function)), *args)
    return calls.finish(found[..., :0, :, :] if expr is pose else found[..., :0, :])
