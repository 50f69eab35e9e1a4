"""Poses, velocities, accelerations and Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.backends.options import CallOptions, Calls
from phipsi.compiler import Form, evaluate, program_at, program_of
from phipsi.expressions.node import Expr
from phipsi.model.mechanisms import of_geometry, of_given_motion, of_modes, tree_of
from phipsi.model.model import Model
from phipsi.model.points import PointSet
from phipsi.operators import (
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

_POSES, _VELOCITIES = Form(pose), Form(V)
_ACCELERATIONS, _CLASSICAL_ACCELERATIONS = Form(ACCELERATIONS), Form(CLASSICAL_ACCELERATIONS)


@of_modes
@of_given_motion
def body_poses(model: Model, q: ArrayLike, **options: Unpack[CallOptions]) -> Array:
    """Pose of every body in the world.

    X_WB(k) = X_WB(parent) X(k), the base-to-tip product of the hinge poses. Row k is the
    homogeneous matrix ``[[R, p], [0, 1]]``: R turns body components into world components, p is the
    body's origin O(k) in m, world axes.

    **Arguments:** `q` (..., nq). **Returns:** (..., n, 4, 4).
    **Cost:** one base-to-tip sweep. **Source:** theory/open-chains 2.

    >>> from phipsi import body_poses
    >>> from phipsi.examples import planar_arm
    >>> body_poses(planar_arm(2), [0.0, 0.5])[1, :3, 3]
    array([1., 0., 0.])
    """
    return evaluate(_POSES, body_poses, model, (q,), options)


@of_modes
@of_given_motion
def frame_poses(
    model: Model,
    q: ArrayLike,
    points: Points | PointSet | None = None,
    **options: Unpack[CallOptions],
) -> Array:
    """Pose of named frames in the world.

    X_WF = X_WB X_BF, with B the body the frame is fixed in. Homogeneous matrices as in
    `body_poses`, in m.

    **Arguments:** `q` (..., nq); `points`, names of frames, bodies or "world", or (name, offset),
    all of `model.frames` in their order by default. **Returns:** (..., len(points), 4, 4).
    **Cost:** one base-to-tip sweep and one product per frame. **Source:** theory/open-chains 2.

    >>> from phipsi import frame_poses
    >>> from phipsi.examples import planar_arm
    >>> frame_poses(planar_arm(2), [0.0, 0.0], ["tip"])[0, :3, 3]
    array([2., 0., 0.])
    """
    names = _listed(model, points, frame_poses)
    if not len(names):
        return _no_frames(pose, model, frame_poses, options, q)
    return program_at(frame_pose, model, names, "world", frame_poses).evaluate((q,), options)


@of_modes
@of_given_motion
def body_velocities(
    model: Model, q: ArrayLike, v: ArrayLike, **options: Unpack[CallOptions]
) -> Array:
    """Spatial velocity of every body.

    V = φ* H* v. Row k is the velocity of body k measured in the world, at its origin O(k), in body
    axes: [angular (rad/s), linear (m/s)].

    **Arguments:** `q` (..., nq), `v` (..., nv). **Returns:** (..., n, 6).
    **Cost:** one base-to-tip sweep. **Source:** SOA eq. 0.1.

    >>> from phipsi import body_velocities
    >>> from phipsi.examples import planar_arm
    >>> body_velocities(planar_arm(2), [0.0, 0.0], [1.0, 1.0])[1]
    array([0., 0., 2., 0., 1., 0.])
    """
    return evaluate(_VELOCITIES, body_velocities, model, (q, v), options)


@of_modes
@of_given_motion
def frame_velocities(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    points: Points | None = None,
    *,
    axes: str = "body",
    **options: Unpack[CallOptions],
) -> Array:
    """Spatial velocity of named frames.

    V_F = B* φ* H* v, with B carrying the frames' origins. Measured in the world, at the frame's
    origin, in the frame's own axes like `body_velocities` (``axes="body"``), in world axes
    ("world"), or at the world's origin in world axes ("spatial"): [angular (rad/s), linear (m/s)].

    **Arguments:** `q` (..., nq), `v` (..., nv); `points`, names of frames, bodies or "world", or
    (name, offset), all of `model.frames` by default. **Returns:** (..., len(points), 6).
    **Cost:** one base-to-tip sweep. **Source:** SOA eq. 0.18.

    >>> from phipsi import frame_velocities
    >>> from phipsi.examples import planar_arm
    >>> frame_velocities(planar_arm(2), [0.0, 0.0], [1.0, 1.0], ["tip"])
    array([[0., 0., 2., 0., 3., 0.]])
    """
    names = _listed(model, points, frame_velocities)
    if not len(names):
        return _no_frames(V, model, frame_velocities, options, q, v)
    program = program_at(POINT_VELOCITIES, model, names, axes, frame_velocities)
    return program.evaluate((q, v), options)


@of_modes
@of_given_motion
def body_accelerations(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vdot: ArrayLike,
    *,
    classical: bool = False,
    **options: Unpack[CallOptions],
) -> Array:
    """True acceleration of every body; gravity is not added.

    A = φ* (H* vdot + a): the time derivative of the body components of V. With ``classical=True``
    the linear part is the acceleration of the point O(k) itself, d²p/dt² in body axes:
    A + s, s = [0; ω × v], the papers' α. Row k: at O(k), in body axes,
    [angular (rad/s²), linear (m/s²)].

    **Arguments:** `q` (..., nq), `v`, `vdot` (..., nv). **Returns:** (..., n, 6).
    **Cost:** one base-to-tip sweep. **Source:** SOA eq. 0.2; theory/open-chains 4.3.

    >>> from phipsi import body_accelerations
    >>> from phipsi.examples import planar_arm
    >>> body_accelerations(planar_arm(2), [0.0, 0.0], [1.0, 0.0], [0.0, 0.0], classical=True)[1]
    array([ 0.,  0.,  0., -1.,  0.,  0.])
    """
    form = _CLASSICAL_ACCELERATIONS if classical else _ACCELERATIONS
    return evaluate(form, body_accelerations, model, (q, v, vdot), options)


@of_modes
@of_given_motion
def frame_accelerations(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vdot: ArrayLike,
    points: Points | None = None,
    *,
    axes: str = "body",
    classical: bool = False,
    **options: Unpack[CallOptions],
) -> Array:
    """Acceleration of named frames; gravity is not added.

    A_F = B* φ* (H* vdot + a), the spatial acceleration: body components of V_F differentiated, at
    the frame's origin in the frame's own axes (``axes="body"``), the same in world axes ("world"),
    or at the world's origin in world axes ("spatial"). With ``classical=True`` the linear part is
    the acceleration of the point itself, A_F + [0; ω × v]; in world axes that is d²p/dt² and equals
    J vdot + J̇ v. [angular (rad/s²), linear (m/s²)].

    **Arguments:** `q` (..., nq), `v`, `vdot` (..., nv); `points`, names of frames, bodies or
    "world", or (name, offset), all of `model.frames` by default.
    **Returns:** (..., len(points), 6).
    **Cost:** one base-to-tip sweep. **Source:** SOA eq. 0.2 and 0.18; theory/open-chains 4.3.

    >>> from phipsi import frame_accelerations
    >>> from phipsi.examples import planar_arm
    >>> arm, q, v, vdot = planar_arm(2), [0.0, 0.0], [1.0, 0.0], [0.0, 0.0]
    >>> frame_accelerations(arm, q, v, vdot, ["tip"], classical=True)
    array([[ 0.,  0.,  0., -2.,  0.,  0.]])
    """
    names = _listed(model, points, frame_accelerations)
    if not len(names):
        return _no_frames(ACCELERATIONS, model, frame_accelerations, options, q, v, vdot)
    if not classical:
        program = program_at(POINT_ACCELERATIONS, model, names, axes, frame_accelerations)
        return program.evaluate((q, v, vdot), options)
    calls, pair = Calls(options), (POINT_ACCELERATIONS, POINT_VELOCITIES)
    out, motion = calls(program_at(pair, model, names, axes, frame_accelerations), q, v, vdot)
    out[..., 3:] += np.cross(motion[..., :3], motion[..., 3:])
    return calls.finish(out)


@of_modes
@of_given_motion
def jacobian(
    model: Model,
    q: ArrayLike,
    points: Points,
    *,
    axes: str = "world",
    **options: Unpack[CallOptions],
) -> Array:
    """Jacobian of points: joint rates → motions of the points.

    J = B* φ* H*. Six rows per point, [angular (rad/s); linear (m/s)]: at the point in world axes
    (``axes="world"``), at the point in the axes of the body or frame named ("body"), or at the
    world's origin in world axes ("spatial").

    **Arguments:** `q` (..., nq); `points`, ``[(body_or_frame, offset), …]`` or names, offsets in m
    in the axes of the body or frame. **Returns:** (..., 6 nC, nv).
    **Cost:** O(N) per row or column, whichever are fewer. **Source:** SOA eq. 0.16–0.18.

    >>> from phipsi import jacobian
    >>> from phipsi.examples import planar_arm
    >>> jacobian(planar_arm(2), [0.0, 0.0], [("link2", (1, 0, 0))])[[2, 4]]
    array([[1., 1.],
           [2., 1.]])
    """
    return program_at(J, model, points, axes, jacobian, "dense").evaluate((q,), options)


@of_geometry
@of_given_motion
def jacobian_dot(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    points: Points,
    *,
    axes: str = "world",
    **options: Unpack[CallOptions],
) -> Array:
    """Time derivative of the Jacobian of points.

    J̇ = Ḃ* φ* H* + B* φ* (Ḣ* − cross(H* v) E_φ* φ* H*), because d/dt E_φ* = −cross(H* v) E_φ*. It is
    the derivative of the components that `jacobian` returns with the same `axes`.

    **Arguments:** `q` (..., nq), `v` (..., nv); `points`, `axes` as for `jacobian`.
    **Returns:** (..., 6 nC, nv), 1/s times the units of J.
    **Cost:** O(N) per row or column, whichever are fewer. **Source:** theory/open-chains 4.3 and 6.

    >>> from phipsi import jacobian_dot
    >>> from phipsi.examples import planar_arm
    >>> jacobian_dot(planar_arm(2), [0.0, 0.0], [1.0, 0.0], [("link2", (1, 0, 0))])[3]
    array([-2., -1.])
    """
    program = program_at(JACOBIAN_DOT, model, points, axes, jacobian_dot, "dense")
    return program.evaluate((q, v), options)


@of_modes
@of_given_motion
def jacobian_dot_v(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    points: Points,
    *,
    axes: str = "world",
    **options: Unpack[CallOptions],
) -> Array:
    """J̇ v: acceleration of points that the rates alone cause.

    J̇ v = Ḃ* V + B* φ* a. In world axes (the default) it is the classical acceleration of the points
    at vdot = 0, without gravity: [angular (rad/s²); linear (m/s²)]. For other `axes` it is
    `jacobian_dot` with the same axes, times v.

    **Arguments:** `q` (..., nq), `v` (..., nv); `points`, `axes` as for `jacobian`.
    **Returns:** (..., 6 nC).
    **Cost:** one base-to-tip sweep. **Source:** MM sec. V.A; theory/open-chains 6.

    >>> from phipsi import jacobian_dot_v
    >>> from phipsi.examples import planar_arm
    >>> jacobian_dot_v(planar_arm(2), [0.0, 0.0], [1.0, 0.0], [("link2", (1, 0, 0))])
    array([ 0.,  0.,  0., -2.,  0.,  0.])
    """
    calls = Calls(options)
    rates = calls(program_at(JACOBIAN_DOT_V, model, points, axes, jacobian_dot_v), q, v)
    return calls.finish(rates.reshape(*rates.shape[:-2], 6 * rates.shape[-2]))


def _listed(model: Model, points: Any, function: Callable[..., Any]) -> Any:
    """All frames of the model where none are named; other collections, such as keys, as lists."""
    if points is None:
        try:
            return model.cache[_listed]
        except (KeyError, AttributeError):
            tree = tree_of(model, function)
            return model.cached(_listed, lambda: tuple(tree.frames))
    if type(points) in (list, tuple) or isinstance(points, (Sequence, PointSet)):
        return points
    return list(points)


def _no_frames(
    expr: Expr, model: Model, function: Callable[..., Any], options: CallOptions, *args: ArrayLike
) -> Any:
    """The same quantity of the bodies without any of them: arguments are checked as ever."""
    calls = Calls(options)
    found = calls(program_of(expr, tree_of(model, function)), *args)
    return calls.finish(found[..., :0, :, :] if expr is pose else found[..., :0, :])
