"""The targets of inverse kinematics as residuals with weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard, cast, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms import ClosureRows
from phipsi.core.compiler import compile
from phipsi.core.model import Model, Pose, as_floats, flat_batch, floats_of, point_set
from phipsi.core.operators import J, frame_pose
from phipsi.errors import InputError, did_you_mean, is_a

Array = NDArray[Any]
Weight = float | tuple[float, float]


@final
class Targets:
    """Where points of the mechanism should be; its loops are rows like theirs.

    **Attributes:** `points`, as the user named them; `batch`, the common leading axes of the goals.
    """

    def __init__(
        self,
        model: Model,
        goals: Mapping[Any, Any],
        weights: Mapping[Any, Weight] | None,
        loops: ClosureRows | None = None,
    ) -> None:
        if not is_a(goals, Mapping) or not goals:
            raise InputError(
                f"targets must be a mapping from points to goals, not {_shown(goals)}. For example:"
                "\n    {'tool': pp.Pose(translation=(0.4, 0, 0.6))}"
            )
        self.points, self._loops = tuple(goals), loops
        self.where = point_set(model, list(goals))
        parsed = [_goal(point, goal) for point, goal in goals.items()]
        shapes = [p.shape[:-1] for _, p in parsed]
        try:
            self.batch = np.broadcast_shapes(*shapes)
        except ValueError:
            shown = ", ".join(f"{x!r}: {s}" for x, s in zip(self.points, shapes, strict=True))
            raise InputError(f"the batch axes of the targets do not broadcast: {shown}") from None
        self._goals = parsed
        self._weights = _weights(self.points, [R is not None for R, _ in parsed], weights)
        self._program = compile((frame_pose, J), model, mode=("apply", "dense"), points=self.where)
        self.turns: Array = np.zeros((0, len(parsed), 3, 3))
        self.p: Array = np.zeros((0, len(parsed), 3))

    def spread(self, batch: tuple[int, ...]) -> None:
        """Give every element of the flattened batch its own row of goals."""
        turns = [flat_batch(np.eye(3) if R is None else R, batch, 2) for R, _ in self._goals]
        self.turns = np.stack(turns, axis=1)
        self.p = np.stack([flat_batch(p, batch) for _, p in self._goals], axis=1)

    @property
    def weights(self) -> Array:
        """Of [rotation, position] of every target, (T, 2)."""
        return self._weights

    @property
    def asks(self) -> Array:
        """Whether each target (T,) asks for [rotation, position]: its weight is not zero."""
        return self._weights > 0

    def poses(self, elements: Array) -> Array:
        """The goals (n, T, 4, 4) of these elements."""
        out = np.zeros((len(elements), len(self.points), 4, 4))
        out[..., :3, :3], out[..., :3, 3] = self.turns[elements], self.p[elements]
        out[..., 3, 3] = 1.0
        return out

    def frames(self, q: Array) -> tuple[Array, Array]:
        """Poses (n, T, 4, 4) of the points, and their Jacobian (n, 6 T, nv)."""
        return self._program(q)

    @property
    def loop_rows(self) -> int:
        """How many rows the loops have."""
        return 0 if self._loops is None else len(self._loops.strict_components)

    def loops(self, q: Array) -> tuple[Array, Array, Array]:
        """Strict residuals of the loops, their derivatives along the rates, and the gap."""
        assert self._loops is not None
        return self._loops.strict_rows(q)


def _are_poses(goal: Any) -> TypeGuard[Sequence[Pose]]:
    listed: Sequence[Any] = goal if is_a(goal, Sequence) else ()
    return bool(listed) and all(isinstance(x, Pose) for x in listed)


def _goal(point: Any, goal: Any) -> tuple[Array | None, Array]:
    """(rotations (..., 3, 3) or None, positions (..., 3)) of one goal."""
    if isinstance(goal, Pose):
        return goal.rotation, goal.translation
    if _are_poses(goal):
        matrices: Array = np.stack([x.matrix for x in goal])
    else:
        try:
            matrices = as_floats("it", goal)
        except InputError:
            raise InputError(_goal_text(point, f"{_shown(goal)} is not an array")) from None
    if not np.isfinite(matrices).all():
        raise InputError(f"the target of {point!r} has numbers that are not finite")
    if matrices.ndim and matrices.shape[-1] == 3:
        return None, matrices
    if matrices.shape[-2:] != (4, 4):
        raise InputError(_goal_text(point, f"it has shape {matrices.shape}"))
    R = matrices[..., :3, :3]
    gap = float(np.abs(np.swapaxes(R, -1, -2) @ R - np.eye(3)).max(initial=0.0))
    flat = bool((matrices[..., 3, :] == (0, 0, 0, 1)).all())
    if gap > 1e-8 or (np.linalg.det(R) < 0).any() or not flat:
        raise InputError(
            f"the target of {point!r} has a matrix that is not a pose: it must be [[R, p], [0, 1]] "
            f"with R a rotation, but |R* R − I| = {gap:.3g} and the last row is "
            f"{'right' if flat else 'not (0, 0, 0, 1)'}"
        )
    return R, matrices[..., :3, 3]


def _goal_text(point: Any, what: str) -> str:
    return (
        f"the target of {point!r} cannot be understood: {what}. It must be a pp.Pose, poses "
        "(..., 4, 4) or positions (..., 3) in m, in the world"
    )


def _weights(
    points: tuple[Any, ...], turns: list[bool], given: Mapping[Any, Weight] | None
) -> Array:
    """[rotation, position] weights (T, 2); a target without a rotation has weight 0 for it."""
    out = np.ones((len(points), 2))
    if given is not None and not isinstance(cast(object, given), Mapping):
        raise InputError(f"weights={given!r} must be a mapping:  weights={{{points[0]!r}: 2.0}}")
    for point, weight in (given or {}).items():
        if point not in points:
            hint = did_you_mean(str(point), [str(p) for p in points])
            raise InputError(f"weights= names {point!r}, which is not a target. {hint}")
        pair = floats_of(weight)
        pair = np.broadcast_to(pair if pair.shape in ((), (1,), (2,)) else np.nan, (2,))
        if not np.isfinite(pair).all() or (pair < 0).any():
            raise InputError(
                f"the weight of {point!r} is {weight!r}; it must be one number ≥ 0, or a pair "
                "(rotation, position)"
            )
        out[points.index(point)] = pair
    out[:, 0] *= turns
    if not out.any():
        raise InputError("all targets have weight 0, so there is nothing to solve")
    return out


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"
