"""Controllers in machine code: their formulas as graphs around the programs they need."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, cast, final

import numpy as np

from phipsi.algorithms import (
    BIAS_FORCES,
    GRAVITY_FORCES,
    INVERSE_DYNAMICS,
    JACOBIAN_DOT_V,
    POINT_VELOCITIES,
)
from phipsi.core.arrays import Array, GraphEvaluator, Node, Tracer, as_node, call, input
from phipsi.core.backends import DOUBTFUL
from phipsi.core.compiler import default_backend
from phipsi.core.machine import Machine, Memory
from phipsi.core.model import Model, PointSet, modal_rates
from phipsi.core.operators import J, Lambda, frame_pose, mass_matrix, tau
from phipsi.core.spatial import ARRAYS, log_of_matrix
from phipsi.native import CustomKernel, MachineCall, graph_function
from phipsi.simulation.control.tracking import Tracking
from phipsi.simulation.integrators.step_calls import ProgramCall

# Acceleration of the point when the joints get tau.
POINT_ACCELERATIONS = JACOBIAN_DOT_V + J @ mass_matrix.inv @ (tau - BIAS_FORCES)


def _compiled(
    model: Model,
    key: Hashable,
    shapes: dict[str, tuple[int, ...]],
    formula: Callable[[dict[str, Any]], Sequence[Any]],
    failure: int = 0,
) -> CustomKernel | NoCode:
    """The machine code of a formula of named quantities, which the model keeps under a key."""

    def build() -> CustomKernel | NoCode:
        if default_backend() != "native" or not model.nv:
            return NoCode()
        found = formula({name: Tracer(input(name, shape)) for name, shape in shapes.items()})
        results = {name: as_node(x) for name, x in zip(("tau", "doubtful"), found, strict=False)}
        return graph_function(shapes, results, failure)

    return model.cached(key, build)


def _tracked(model: Model, *more: str) -> dict[str, tuple[int, ...]]:
    """The shapes of a state, of its reference, and of more with a number for every rate."""
    shapes = dict.fromkeys(("q", "v", "q_ref", "v_ref", "vdot_ref", "kp", "kd", *more), (model.nv,))
    return shapes | {"q": (model.nq,), "q_ref": (model.nq,)}


def compiled_tracking(
    model: Model,
    key: Hashable,
    formula: Callable[[dict[str, Any]], Sequence[Any]],
    *more: str,
) -> CustomKernel | NoCode:
    """The machine code of a formula of a state, its reference, kp, kd and `more` per velocity."""
    return _compiled(model, key, _tracked(model, *more), formula)


def computed_torque(model: Model) -> CustomKernel | NoCode:
    """(q, v, q_ref, v_ref, vdot_ref, kp, kd, damping) → tau."""

    def formula(at: dict[str, Any]) -> list[Array]:
        q, v, *reference, kp, kd, damping = at.values()
        tracking = Tracking(model)
        e, e_rate, ff = tracking.errors(q, v, *reference)
        vdot = tracking.accelerations(q, v, ff + kd * e_rate + kp * e)
        (efforts,) = called(model, INVERSE_DYNAMICS, q, v, vdot)
        return [efforts + damping * v]

    return _compiled(model, computed_torque, _tracked(model, "damping"), formula)


Response = Callable[[Any, Any, Any, Any], tuple[Any, Any]]
"""q, v, τ₀, J (traced) → J Y J*, and the accelerations under τ₀; Y keeps constraints."""


def operational_efforts(
    model: Model,
    where: PointSet,
    rows: tuple[int, ...],
    at: Mapping[str, Any],
    response: Response | None = None,
    status: int = 0,
) -> tuple[Any, Any]:
    """Efforts of operational-space control of traced quantities, and whether they are in doubt.

    `at` has those of `operational_space` by name; without ``second``, τ₀ damps the null space.
    `response` is that of a mechanism with constraints. With `status`, a run stops in doubt.
    """
    q, v, damped = at["q"], at["v"], at["damping"] * at["v"]
    if "second" not in at:
        second = called(model, INVERSE_DYNAMICS, q, v, -at["settings"][0] * v)[0] + damped
    else:
        second = at["second"]
    if response is None:
        forms = (frame_pose, POINT_VELOCITIES, Lambda, POINT_ACCELERATIONS)
        modes = ("apply", "apply", "dense", "apply")
        state = called(model, forms, q, v, second - damped, points=where, mode=modes)
        X, velocity, admittance, drift = state
    else:
        forms = (frame_pose, POINT_VELOCITIES, JACOBIAN_DOT_V, J)
        modes = ("apply", "apply", "apply", "dense")
        X, velocity, drift, jacobian = called(model, forms, q, v, points=where, mode=modes)
        admittance, vdot = response(q, v, second - damped, jacobian)
        drift = drift + np.stack([jacobian @ vdot])
    X, velocity, drift = X[0], velocity[0], drift[0]
    goal, wanted = at["goal"], [at["acceleration"][i] for i in rows]
    if min(rows) < 3:
        R = [[sum(goal[i, k] * X[j, k] for k in range(3)) for j in range(3)] for i in range(3)]
        errors = list(log_of_matrix(R, ARRAYS))
    else:
        errors = [0.0] * 3
    errors += [goal[i, 3] - X[i, 3] for i in range(3)]
    lacking = [
        wanted[n]
        + at["kd"][n] * (at["velocity"][i] - velocity[i])
        + at["kp"][n] * errors[i]
        - drift[i]
        for n, i in enumerate(rows)
    ]
    chosen = [[admittance[i, j] for j in rows] for i in rows]
    force, doubtful = solved_directions(chosen, lacking, [i < 3 for i in rows], at["settings"][1])
    if status:
        nodes = call(StopWhere(len(rows), status), as_node(np.stack(force)), as_node(doubtful))
        force = cast(Any, Tracer(nodes[0]))
    whole = [force[rows.index(i)] if i in rows else 0.0 for i in range(6)]
    (push,) = called(model, J.T, q, np.stack([np.stack(whole)]), points=where)
    return second + push, doubtful


def joint_rates(model: Model) -> Any:
    """1 at the rates of joints, 0 at those of modes, which have no drive, (nv,)."""
    out = np.ones(model.nv)
    out[modal_rates(model)] = 0.0
    return out


def pd_gravity(model: Model) -> CustomKernel | NoCode:
    """(q, v, q_ref, v_ref, vdot_ref, kp, kd) → tau."""

    def formula(at: dict[str, Any]) -> list[Array]:
        q, v, *reference, kp, kd = at.values()
        tracking = Tracking(model)
        e, e_rate, _ = tracking.errors(q, v, *reference)
        pull = tracking.efforts(q, kp * e + kd * e_rate)
        (weight,) = called(model, GRAVITY_FORCES, q)
        tau = weight + pull
        return [joint_rates(model) * tau if model.is_flexible else tau]

    return _compiled(model, pd_gravity, _tracked(model), formula)


def operational_space(
    model: Model, where: PointSet, rows: tuple[int, ...], key: Hashable, *, own: bool
) -> CustomKernel | NoCode:
    """(q, v, goal, V_ref, A_ref, kp, kd, damping, settings[, τ₀]) → tau.

    `settings` are the damping of the null space and the least ratio of eigenvalues; `own`, whether
    τ₀ is computed from them; `key`, under which the model keeps the function. It
    fails near singularities: the formula is that of Λ without damping.
    """
    nq, nv, m = (model.nq,), (model.nv,), (len(rows),)
    shapes = {"q": nq, "v": nv, "goal": (4, 4), "velocity": (6,), "acceleration": (6,)}
    shapes |= {"kp": m, "kd": m, "damping": nv, "settings": (2,)}
    shapes |= {} if own else {"second": nv}

    def formula(at: dict[str, Any]) -> tuple[Array, ...]:
        return operational_efforts(model, where, rows, at)

    return _compiled(model, key, shapes, formula, DOUBTFUL)


def called(model: Model, forms: Any, *args: Any, **options: Any) -> list[Any]:
    """Results of a program for traced arguments."""
    several = forms if isinstance(forms, tuple) else (forms,)
    found = call(ProgramCall(several, model, **options), *map(as_node, args))
    return [Tracer(x) for x in found]


def solved_directions(
    A: list[list[Any]], b: Sequence[Any], kinds: Sequence[Any], least: Any
) -> tuple[list[Any], Any]:
    """A⁻¹ b, and whether an eigenvalue of the scaled A may be below `least` of the largest.

    Directions of one kind, such as rotations and translations, are scaled by the roots of their
    means S. The trace of the inverse is at least 1/s of the smallest eigenvalue s, and that of the
    matrix at least the largest.
    """
    n = len(b)
    scales: list[Any] = [None] * n
    for kind in set(kinds):
        mine = [i for i in range(n) if kinds[i] == kind]
        root = np.sqrt(sum(A[i][i] for i in mine) / len(mine))
        for i in mine:
            scales[i] = root
    L: list[list[Any]] = [[0.0] * n for _ in range(n)]
    back: list[list[Any]] = [[0.0] * n for _ in range(n)]  # of L
    for i in range(n):
        for j in range(i + 1):
            entry = A[i][j] / (scales[i] * scales[j]) - sum(L[i][k] * L[j][k] for k in range(j))
            L[i][j] = np.sqrt(entry) if i == j else entry * back[j][j]
        back[i][i] = 1 / L[i][i]
        for j in range(i):
            back[i][j] = -back[i][i] * sum(L[i][k] * back[k][j] for k in range(j, i))
    y = [sum(back[i][k] * (b[k] / scales[k]) for k in range(i + 1)) for i in range(n)]
    x = [sum(back[k][i] * y[k] for k in range(i, n)) / scales[i] for i in range(n)]
    inverse = sum(back[i][j] * back[i][j] for i in range(n) for j in range(i + 1))
    return x, np.where(n * inverse * least <= 1, 0.0, 1.0)


@final
class StopWhere(MachineCall):
    """n values, and a condition: where it is not 0, they are not numbers and a run stops.

    `status` is noted, which says why (simulation/runs/rollout.py).
    """

    def __init__(self, n: int, status: int) -> None:
        self.takes, self.shapes, self.status = ((n,), ()), ((n,),), status
        self.name, self.key = f"stop where {status}", (n, status)

    def text(self, m: Machine, args: Sequence[Memory]) -> Sequence[Memory]:
        """The values as they are; others fail, also where the condition is not a number."""
        values, condition = args
        m.fail(~m.equal(condition.value, 0.0), self.status)
        return [values]

    def vjp(
        self, args: tuple[Node, ...], results: tuple[Node, ...], weights: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The weights of the values."""
        return [weights[0], None]


def stopped_where(values: Any, condition: Any, status: int) -> Any:
    """Traced values (n,), with which a run stops where the condition is not 0."""
    nodes = call(StopWhere(values.shape[0], status), as_node(values), as_node(condition))
    return Tracer(nodes[0])


@final
class GraphFormula:
    """A formula of named traced quantities, on numbers: in machine code, or as a graph on arrays.

    Results whose size is not zero, of `formula`, which takes them by name.
    """

    def __init__(
        self,
        shapes: dict[str, tuple[int, ...]],
        formula: Callable[[dict[str, Any]], Sequence[Any]],
    ) -> None:
        self._shapes = shapes
        found = formula({name: Tracer(input(name, shape)) for name, shape in shapes.items()})
        nodes = [as_node(x) for x in found]
        self._sizes = [node.size for node in nodes]
        self._nodes = [node for node in nodes if node.size]
        self._on_arrays = GraphEvaluator(self._nodes)
        self._code: CustomKernel | None = None
        if default_backend() == "native":
            results = {f"result{i}": node for i, node in enumerate(self._nodes)}
            self._code = graph_function(shapes, results)

    def __call__(self, at: Mapping[str, Any]) -> list[Array]:
        """The results (..., shape), batched on leading axes."""
        values = [np.asarray(at[name], dtype=np.float64) for name in self._shapes]
        found = None if self._code is None else self._code.fast(*values)
        if found is None:
            found = self._on_arrays(dict(zip(self._shapes, values, strict=True)))
        several = iter(found if isinstance(found, tuple | list) else [found])
        return [next(several) if size else np.zeros(0) for size in self._sizes]


@final
class NoCode:
    """Stands for machine code where there is none."""

    def fast(self, *args: Any) -> None:
        """Nothing: every call is out of the ordinary."""

    def joined(self, slow: Callable[..., Any], *args: Any) -> Any:
        """All elements by `slow`."""
        return slow(*args)
