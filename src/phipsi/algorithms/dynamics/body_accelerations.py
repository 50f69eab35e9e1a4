"""Forward dynamics with the accelerations of the bodies and points, as algorithm FD2 has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.dynamics.dynamics_expressions import fd2_with_accelerations, loaded
from phipsi.algorithms.kinematics.motions import accelerations
from phipsi.core.backends import CallOptions, Calls
from phipsi.core.compiler import compile
from phipsi.core.model import Model, PointSet

Array = NDArray[Any]
Points = Sequence[Any] | PointSet


class ForwardMotion(NamedTuple):
    """Generalized accelerations, and the accelerations of the bodies and points they cause.

    Parameters
    ----------
    vdot : ndarray, shape (..., nv)
        Generalized accelerations.
    accelerations : ndarray, shape (..., n, 6)
        The papers' α: spatial accelerations of the bodies, without gravity, in body axes, as
        ``pp.accelerations(…, classical=True)``.
    point_accelerations : ndarray, shape (..., nC, 6)
        The papers' α(0): those of the points, in world axes.
    """

    vdot: Array
    accelerations: Array
    point_accelerations: Array


def motion_of_fd2(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    f_ext: ArrayLike | None,
    points: Points | None,
    f0: ArrayLike | None,
    options: CallOptions,
) -> ForwardMotion:
    """Algorithm FD2 of a tree: the smoothed accelerations are those of the bodies."""
    form = loaded(fd2_with_accelerations, f_ext is not None, f0 is not None)
    loads = tuple(x for x in (f_ext, f0) if x is not None)
    calls = Calls(options)
    if points is None:
        vdot, bodies = calls(compile(form[:2], model, rewrite="as_written"), q, v, tau, *loads)
        return calls.finish(ForwardMotion(vdot, bodies, _none(bodies)))
    program = compile(form, model, points=points, rewrite="as_written")
    return calls.finish(ForwardMotion(*calls(program, q, v, tau, *loads)))


def motion_after(
    forward_dynamics: Callable[[], Array],
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    points: Points | None,
    options: CallOptions,
) -> ForwardMotion:
    """The same for any mechanism and form: accelerations from those of the joints."""
    calls = Calls(options)
    vdot = forward_dynamics()
    bodies = accelerations(model, q, v, vdot, classical=True)
    if points is None:
        return calls.finish(ForwardMotion(vdot, bodies, _none(bodies)))
    named: Any = points if isinstance(points, PointSet) else list(points)
    of_points = accelerations(model, q, v, vdot, named, axes="world", classical=True)
    return calls.finish(ForwardMotion(vdot, bodies, of_points))


def _none(bodies: Array) -> Array:
    return np.empty((*bodies.shape[:-2], 0, 6))
