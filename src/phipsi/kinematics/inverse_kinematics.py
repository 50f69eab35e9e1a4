"""Inverse kinematics: configurations that bring points of a mechanism to given places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import StepCoordinates, rows_of, search as close_loops
from phipsi.core.backends import joint_array
from phipsi.core.compiler import default_backend
from phipsi.core.model import (
    UNAFFECTED,
    Model,
    Pose,
    as_floats,
    flat_batch,
    supports,
    tree_of,
    whole_number,
)
from phipsi.errors import ConvergenceError, InputError, is_a, one_of, true_or_false
from phipsi.kinematics.ik_multistart import PULL, PULL_AGAIN, Code, IKResult, MultistartSearch
from phipsi.kinematics.ik_problem import Targets, Weight
from phipsi.kinematics.ik_search import CLOSED

Array = NDArray[Any]


@supports(loops=True, rotors=UNAFFECTED)
def inverse_kinematics(
    model: Model,
    targets: Mapping[Any, Any],
    q0: ArrayLike | None = None,
    *,
    weights: Mapping[Any, Weight] | None = None,
    limits: bool = True,
    fixed: Iterable[str] = (),
    rest: ArrayLike | None = None,
    position_tolerance: float = 1e-6,
    rotation_tolerance: float = 1e-6,
    max_iterations: int = 100,
    restarts: int | None = None,
    seed: int = 0,
    on_error: str = "raise",
) -> IKResult:
    """Solve inverse kinematics for target poses or positions (damped least squares).

    Loops of a `System` are closed: their residuals are rows like those of the targets, and where
    the targets cannot be met the loops are closed near the compromise. The search finds local
    minima: a failure does not prove that a target is out of reach.

    Parameters
    ----------
    model : Model
        A tree or a `System`.
    targets : mapping
        Point → goal. A point is a body, a frame or (name, offset in m); a goal is a `Pose`, poses
        (..., 4, 4) or only positions (..., 3), in the world.
    q0 : array_like, shape (..., nq), optional
        Where to start (moved into the limits). Default: neutral.
    weights : mapping, optional
        Point → number or (rotation, position), 1 rad counting as much as 1 m; 0 to ignore. Default:
        1.
    limits : bool, optional
        Whether to keep ``model.lower`` ≤ q ≤ ``model.upper``. Default: True.
    fixed : iterable of str, optional
        Joints that stay as in `q0`. Default: none.
    rest : array_like, shape (..., nq), optional
        A posture to stay near in the directions that the targets leave free. Default: none.
    position_tolerance : float, optional
        m. Default: 1e-6.
    rotation_tolerance : float, optional
        rad. Default: 1e-6.
    max_iterations : int, optional
        Steps per attempt. Default: 100.
    restarts : int, optional
        How many other random initial configurations an element that fails gets. Default: none if
        `q0` is given, because a solution near it is wanted, else 20.
    seed : int, optional
        Seed of the restarts. Default: 0.
    on_error : {"raise", "best"}, optional
        Raise a `ConvergenceError`, whose `result` is the best that was found, or return that.
        Default: "raise".

    Returns
    -------
    IKResult
        q, converged, position_error, rotation_error, iterations and attempts.

    Raises
    ------
    ConvergenceError
        If a target is not met and `on_error` is "raise".

    Notes
    -----
    Minimises ½ Σ |w_R log(R R_goal*)|² + |w_p (p − p_goal)|² by Levenberg–Marquardt on the
    manifold: each step solves (J* J + λ I) d = −J* e between the bounds with an active set, so that
    a joint at its limit leaves the others free, and moves by `model.integrate`. J = B* φ* H* and
    the poses of all elements of a batch come from one call of one program per step; elements that
    have converged are no longer computed. **Cost:** per step O(N) for poses and Jacobian and O(nv³)
    for the solve. **Source:** Sugihara 2011, IEEE Trans. Robotics 27 (damping).

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2)
    >>> result = pp.inverse_kinematics(arm, {"tip": (0.0, 1.0, 0.0)}, q0=[0.1, 1.3])
    >>> result.q.round(6).tolist()
    [0.523599, 2.094395]
    """
    _check(max_iterations, restarts, seed, on_error)
    position_tolerance = _tolerance("position_tolerance", position_tolerance)
    rotation_tolerance = _tolerance("rotation_tolerance", rotation_tolerance)
    limits = true_or_false("limits", limits)
    if weights is rest is None and not fixed and not restarts:
        settings = (position_tolerance, rotation_tolerance, max_iterations)
        result = _one(model, targets, q0, limits, settings)
        if result is not None:
            return result
    tree = tree_of(model, inverse_kinematics)
    loops = rows_of(model) if model.n_rows else None
    model = tree
    goals = Targets(model, targets, weights, loops)
    steps = StepCoordinates(model, fixed, limits)
    start = _configurations(model, model.neutral() if q0 is None else q0, "q0")
    goal_rest = None if rest is None else _configurations(model, rest, "rest")
    shapes = [goals.batch, start.shape[:-1], () if goal_rest is None else goal_rest.shape[:-1]]
    try:
        batch = np.broadcast_shapes(*shapes)
    except ValueError:
        raise InputError(
            f"the batch axes do not broadcast: targets {shapes[0]}, q0 {shapes[1]}, "
            f"rest {shapes[2]}"
        ) from None
    goals.spread(batch)
    first = steps.inside(flat_batch(start, batch))
    if goal_rest is not None:
        goal_rest = flat_batch(goal_rest, batch)
    code = None if loops is not None else _code(goals, steps)
    search = MultistartSearch(goals, steps, goal_rest, position_tolerance, rotation_tolerance, code)
    tries = (20 if q0 is None else 0) if restarts is None else restarts
    _attempts(search, first, tries, seed, max_iterations)
    if loops is not None:
        close = partial(
            close_loops, loops,
            fixed=fixed, limits=limits, tolerance=CLOSED, max_iterations=max_iterations,
        )  # fmt: skip
        search.close(close)
    result = search.result(batch)
    if on_error == "raise" and not result.converged.all():
        text = _failure(result, steps, position_tolerance, rotation_tolerance)
        raise ConvergenceError(text, result)
    return result


def _attempts(
    search: MultistartSearch, first: Array, tries: int, seed: int, max_iterations: int
) -> None:
    """From the first configurations (n, nq), then from random ones until all targets are met."""
    model, moving = search.steps.model, search.steps.moving_q
    for attempt in range(tries + 1):
        left = np.flatnonzero(~search.met) if attempt else np.arange(len(first))
        if not left.size:
            break
        begin = first[left]
        if attempt:
            # every element has draws of its own, so that its result does not depend on the others
            rng = np.random.default_rng([seed, attempt])
            begin[:, moving] = model.random_configuration(rng, (len(first),))[left][:, moving]
        search.attempts[left] += 1
        if search.rest is None:
            search.attempt(begin, left, max_iterations)
            continue
        search.attempt(begin, left, max_iterations, PULL)
        lost = ~search.met[left]  # where the pull led astray, first the targets, then the posture
        search.attempt(begin[lost], left[lost], max_iterations)
        found = left[lost][search.met[left[lost]]]
        search.attempt(search.q[found], found, max_iterations, PULL_AGAIN)


_UPRIGHT, _LAST = np.eye(3), np.array([[0.0, 0.0, 0.0, 1.0]])  # of goals that are positions


class _SearchConstants(NamedTuple):
    """What one search needs that is the same in every call."""

    direct: Callable[..., Any]
    weights: Array
    limits: tuple[Array, Array, Array]
    still: Array | None  # rates of zero, for models with quaternions


def _code(goals: Targets, steps: StepCoordinates) -> Code | None:
    """The machine code of an attempt, where there is some."""
    if not steps.are_rates or not steps.columns.size or default_backend() != "native":
        return None
    from phipsi.kinematics.ik_code import search_code  # loads LLVM

    if search_code(steps.model, goals.where) is None:
        return None
    return Code(partial(search_code, steps.model, goals.where), steps.limits)


def _one(
    model: Model,
    targets: Mapping[Any, Any],
    q0: Any,
    limits: bool,
    settings: tuple[float, float, int],
) -> IKResult | None:
    """The shortest way: one configuration, found at the first attempt; None otherwise."""
    if type(q0) in (list, tuple):
        q0 = joint_array(tree_of(model, inverse_kinematics), "q0", q0, "nq")
    kind: object = type(targets)
    if kind is not dict or type(q0) is not np.ndarray:
        return None
    goals: list[Array] = []
    turns: list[bool] = []
    for goal in targets.values():
        matrix = goal.matrix if type(goal) is Pose else goal
        shape = matrix.shape if type(matrix) is np.ndarray else ()
        if shape == (3,):
            matrix = np.concatenate([_UPRIGHT, matrix[:, None]], axis=1)
            matrix = np.concatenate([matrix, _LAST])
        elif shape != (4, 4):
            return None
        goals.append(matrix)
        turns.append(shape == (4, 4))
    key = (_one, tuple(targets), tuple(turns), limits)
    try:
        kept = model.cache[key]
    except KeyError:
        kept = model.cached(key, lambda: _kept(model, targets, limits))
    except (AttributeError, TypeError):  # not a model, or points that are not keys
        return None
    if kept is None or not goals:
        return None
    if kept.still is not None:
        q0 = model.integrate(q0, kept.still)
    poses = goals[0][None] if len(goals) == 1 else np.array(goals)
    found = kept.direct(q0, poses, kept.weights, *kept.limits, np.array(settings, dtype=float))
    if found is None or not found[3][0]:
        return None
    q, position, rotation, info = found
    if not all(turns):
        rotation[np.logical_not(turns)] = np.nan
    count = np.array(int(info[1]))
    return IKResult(q, np.array(True), position, rotation, count, np.array(1), tuple(targets))


def _kept(model: Model, targets: Mapping[Any, Any], limits: bool) -> _SearchConstants | None:
    if not is_a(model, Model) or model.n_rows:
        return None
    tree = model.model
    goals, steps = Targets(tree, targets, None), StepCoordinates(tree, (), limits)
    code = _code(goals, steps)
    if code is None:
        return None
    still = np.zeros(tree.nv) if tree.nq != tree.nv else None
    return _SearchConstants(code.search(False).direct, goals.weights, code.limits, still)


def _configurations(model: Model, q: ArrayLike, what: str) -> Array:
    """A configuration of the user as an array, or an error that names the joint."""
    values = joint_array(model, what, q, "nq")
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = model.integrate(values, np.zeros(model.nv))  # quaternions of unit length
    if not np.isfinite(unit).all():
        raise InputError(f"{what} has a quaternion (0, 0, 0, 0), which is not a rotation")
    return unit


def _tolerance(name: str, value: Any) -> float:
    number = as_floats(name, value)
    if number.ndim or not number > 0:
        raise InputError(f"{name}={value!r} must be larger than 0")
    return float(number)


def _check(max_iterations: int, restarts: int | None, seed: int, on_error: Any) -> None:
    whole_number("max_iterations", max_iterations)
    if restarts is not None:
        whole_number("restarts", restarts, 0)
    whole_number("seed", seed, 0)
    is_old = isinstance(on_error, str) and on_error == "return"
    hint = '"return" is called "best".' if is_old else ""
    one_of("on_error", on_error, ("raise", "best"), hint)


def _failure(result: IKResult, steps: StepCoordinates, position: float, rotation: float) -> str:
    """By how much the worst element misses which target, and what may help."""
    miss = np.fmax(result.position_error / position, result.rotation_error / rotation)
    miss = np.where(result.converged[..., None], 0.0, miss).max(axis=-1)
    worst = np.unravel_index(int(np.argmax(miss)), miss.shape)
    failed, count = int((~result.converged).sum()), result.converged.size
    lines: list[str] = []
    if count > 1:
        at = [int(i) for i in worst]
        lines.append(f"{failed} of {count} elements do not reach their targets; the worst is {at}:")
    else:
        lines.append("the targets are not reached; the best configuration found misses them:")
    for i, point in enumerate(result.targets):
        parts: list[str] = []
        for what, error, most, unit in (
            ("position", result.position_error[worst][i], position, "m"),
            ("rotation", result.rotation_error[worst][i], rotation, "rad"),
        ):
            if error > most:
                parts.append(f"its {what} by {error:.4g} {unit} (tolerance {most:g})")
        if parts:
            lines.append(f"    {point!r} misses {' and '.join(parts)}")
    at_limits = steps.joints_at_limits(result.q[worst])
    if at_limits:
        lines.append(f"    joints at a limit there: {', '.join(at_limits)}")
    lines.append(
        "They may be out of reach, or the search ended in a local minimum. Try more restarts,\n"
        "or return the best configuration instead of an error:\n"
        "    inverse_kinematics(…, restarts=50, on_error='best')"
    )
    return "\n".join(lines)
