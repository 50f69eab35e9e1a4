"""Hybrid force/position control: forces in some directions of task frames, motions in others.

Reasons: docs/decisions/0077.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import INVERSE_DYNAMICS, JACOBIAN_DOT_V, POINT_VELOCITIES, System
from phipsi.core.arrays import Tracer, parameters_by_name, with_numbers
from phipsi.core.model import Model, Refusal, as_floats, mechanism_of, supports
from phipsi.core.operators import J, Lambda, frame_pose
from phipsi.core.spatial import ARRAYS, log_of_matrix
from phipsi.errors import InputError, SingularMatrixError, did_you_mean, true_or_false
from phipsi.laws import Law, Signal, signals
from phipsi.simulation.control.actuated_mechanism import DrivenMechanism
from phipsi.simulation.control.compiled_control import (
    POINT_ACCELERATIONS,
    GraphFormula,
    called,
    solved_directions,
    stopped_where,
)
from phipsi.simulation.control.references import ConstantPose, pose_state_at
from phipsi.simulation.control.task_frames import DIRECTIONS, TaskFrame, task_points
from phipsi.simulation.runs.checks import checked_number
from phipsi.simulation.runs.rollout import SINGULAR_TASK
from phipsi.simulation.runs.user_functions import check_signature, name_of
from phipsi.support import one_line

Array = NDArray[Any]
_UNLIMITED = 1e300


@final
@supports(
    loops=True,
    flexible=Refusal(
        "it prescribes the acceleration of a frame, which also depends on modes, and these are "
        "not actuated. PDGravity actuates the joints only."
    ),
    rotors=True,
)
class HybridForcePosition:
    """Hybrid force/position control of frames in contact, of one arm or several.

    ``control(t, q, v)`` returns tau (..., nv). In the axes of the base of each task frame, with
    e, V and α as for `OperationalSpace`, relative to the base:

        motion directions    α = A_ref + kd (V_ref − V) + kp e
        force directions     α = −force_damping V, and the force F_d

        tau = τ₀ + J* [Λ⁻¹ (α − J̇ v − J ℳ⁻¹ (τ₀ − bias)) + F_d],     Λ = J ℳ⁻¹ J*

    J has the rows of all force and motion directions. On a frictionless surface (z = 0 of the base)
    the acceleration along the normal is zero anyway, so the contact force is F_d exactly and the
    motion follows as if there were no contact. Where the model is not the mechanism, `feedback`
    adds an integral of the error of the measured force. In the air F_d accelerates the frame
    towards the surface, against `force_damping`.

    With a base on a body that moves, the force acts on that body too, with the opposite sign: one
    arm presses on what another holds.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    task : TaskFrame or sequence of TaskFrame
        What is controlled.
    motion : callable, Pose, array_like or sequence
        For each task a reference of the pose of its frame relative to its base, in the axes of the
        base: as for `OperationalSpace`. Directions that are not motion directions are ignored.
    force : callable or array_like, shape (m,)
        The forces F_d, N or N·m, that the frames exert on what they touch, in the force directions
        of all tasks in order: numbers, or a function of t.
    kp, kd : array_like
        Gains, 1/s² and 1/s, numbers or one per motion direction of all tasks in order.
    contacts : sequence of str, optional
        Names of constraints of a `System` that stand for the contacts whose forces are controlled,
        such as a `PointOnPlane`. The controller computes with the system without them. Default:
        none.
    force_damping : float, optional
        Damping in the force directions, 1/s; no effect while the contact is closed. Default: 0.
    null_space, null_damping : optional
        As for `OperationalSpace`.
    singularity : float, optional
        Ratio of eigenvalues of the scaled Λ below which a `SingularMatrixError` says that the
        directions cannot be controlled, and a compiled run stops; nothing is damped.
    compensate_damping, actuated : optional
        As for `OperationalSpace`.

    Notes
    -----
    **Cost:** O(N) + O(m³), three programs; with loops or `actuated` O(nv³). **Source:** Khatib
    1987, IEEE J. Robotics and Automation 3; Raibert and Craig 1981; MC
    sec. 6.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(3)
    >>> wall = pp.control.TaskFrame("tip", force=(3,), motion=(4,))
    >>> control = pp.control.HybridForcePosition(arm, wall, (2.0, 0.5, 0), force=8, kp=100, kd=20)
    >>> control(0.0, [0.5, -0.2, -0.4], [0.0, 0.0, 0.0]).shape
    (3,)
    """

    parameters: ClassVar[Mapping[str, str]] = {
        "kp": "kp", "kd": "kd", "force": "_constant_force",
        "null_damping": "_own_damping", "null_space": "null_space",
    }  # fmt: skip

    def __init__(
        self,
        model: Model,
        task: TaskFrame | Sequence[TaskFrame],
        motion: Any,
        force: Callable[[float], ArrayLike] | ArrayLike,
        kp: ArrayLike,
        kd: ArrayLike,
        *,
        contacts: Sequence[str] = (),
        force_damping: float = 0.0,
        null_space: Callable[[float, Array, Array], Array] | None = None,
        null_damping: float | None = None,
        singularity: float = 1e-6,
        compensate_damping: bool = False,
        actuated: Sequence[str] | None = None,
    ) -> None:
        free = without_contacts(mechanism_of(model, HybridForcePosition), contacts)
        self._mechanism = DrivenMechanism(free, HybridForcePosition, actuated)
        self.model = model = self._mechanism.tree
        self.tasks = (task,) if isinstance(task, TaskFrame) else tuple(task)
        for one in self.tasks:
            if not isinstance(one, TaskFrame):
                raise InputError(
                    f"task has {one!r}, which is not a task frame:\n"
                    "    pp.control.TaskFrame('tool', force=(5,))"
                )
        self.references = _references(motion, self.tasks, single=isinstance(task, TaskFrame))
        self._where = task_points(model, self.tasks)
        self._moving = sum(len(x.motion) for x in self.tasks)
        self._pressing = sum(len(x.force) for x in self.tasks)
        self.force = self._checked_force(force)
        self._constant_force = None if callable(self.force) else self.force
        self.kp, self.kd = (_gains(x, self._moving, n) for x, n in ((kp, "kp"), (kd, "kd")))
        self.null_space = null_space
        if null_space is not None:
            check_signature(null_space, f"null_space {name_of(null_space)!r}", "t", "q", "v")
            if null_damping is not None:
                raise InputError(
                    f"null_damping={null_damping!r} has no effect together with null_space=, "
                    "which replaces it. Remove one of the two"
                )
        kind = "a finite number of 1/s,"
        damping = 2.0 if null_damping is None else null_damping
        self.null_damping = checked_number(damping, "null_damping", kind, zero=True)
        self._own_damping = self.null_damping if null_space is None else None
        self.force_damping = checked_number(force_damping, "force_damping", kind, zero=True)
        self.singularity = checked_number(
            singularity, "singularity", "between 0 and 1,", zero=False
        )
        if self.singularity >= 1:
            raise InputError(f"singularity={singularity!r} must be between 0 and 1")
        compensated = true_or_false("compensate_damping", compensate_damping)
        self.damping = model.damping if compensated else np.zeros(model.nv)
        self._formulas: dict[bool, GraphFormula] = {}

    def __repr__(self) -> str:
        return one_line(self, self.model, *self.tasks, kp=self.kp, kd=self.kd)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_formulas": {}}

    def __call__(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """Return tau (..., nv)."""
        return self._efforts(t, q, v, self._force_at(t))

    def errors(self, t: float, q: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        """e and V_ref − V (..., m) in the motion directions of all tasks."""
        found = self._numbers(t, q, v, self._force_at(t))
        return found[1], found[2]

    def feedback(
        self,
        measured: Signal | str,
        ki: ArrayLike,
        *,
        limit: ArrayLike | None = None,
        rate: float | None = None,
        delay: int = 0,
        name: str = "hybrid",
    ) -> Law:
        """This controller with feedback of the measured force, as a law of a `Simulator`.

        The force is F_d + i with i̇ = ki (F_d − F), i within ±limit; what is cut off drives the
        integral back. So the force settles at F_d although masses and friction are not those of
        the model.

        Parameters
        ----------
        measured : str or Signal
            The name of a constraint, whose multipliers are the forces (`constraint_loads`; its
            first joint frame must have the axes of the base), or a signal (m,), such as
            ``pp.signals.output("sensor", "force")``: forces that the frames exert, in the force
            directions.
        ki : array_like
            Gains of the integral, 1/s, a number or one per force direction.
        limit : array_like, optional
            Largest correction, N or N·m. Default: unlimited.
        rate : float, optional
            Samples per second. Default: continuous.
        delay : int, optional
            Delay, in samples.
        name : str, optional
            Name of the law.

        Returns
        -------
        Law
            With the state "hybrid.integral"; it records "hybrid.command", the force that is
            commanded, and "hybrid.error", the error of the measured one.
        """
        size = self._pressing
        if not size:
            raise InputError("no task has force directions, so there is no force to feed back")
        signal = signals.constraint_loads(measured) if isinstance(measured, str) else measured
        own = parameters_by_name(self)

        def hybrid(t: Any, q: Any, v: Any, **given: Any) -> dict[str, Any]:
            control = with_numbers(self, {n: x for n, x in given.items() if n in own})
            integral, most = given["integral"], given["limit"]
            wanted, kept = control._force_at(t), np.clip(integral, -most, most)
            error = wanted - given["measured"]
            change = given["ki"] * (error + kept - integral)
            moved = change if rate is None else integral + given["interval"] * change
            tau = control._efforts(t, q, v, wanted + kept)
            return {"tau": tau, "integral": moved, "command": wanted + kept, "error": error}

        hybrid.__wrapped__ = self  # type: ignore[attr-defined]
        arguments = ("t", "q", "v", "measured", "integral", "interval", "ki", "limit", *own)
        first = {"integral": np.zeros(size)}
        kinds: dict[str, Any] = {"states": first} if rate is None else {"discrete": first}
        made = Law(hybrid, name, arguments, **kinds)
        if rate is not None:
            made = made.sampled(rate, delay)
        most = np.full(size, _UNLIMITED) if limit is None else _gains(limit, size, "limit")
        numbers = {"ki": _gains(ki, size, "ki"), "limit": most, **own}
        return made.bind(measured=signal, interval=signals.interval(), **numbers)

    # ---- the formula

    def _checked_force(self, given: Any) -> Any:
        """A function of t, or numbers (m,)."""
        if callable(given):
            check_signature(given, f"force {name_of(given)!r}", "t")
            return given
        array, size = as_floats("force", given), self._pressing
        if array.shape not in ((), (size,)) or not np.isfinite(array).all():
            raise InputError(
                f"force={given!r} must be one finite number or {size}, one per force direction of "
                "the tasks, in N or N·m"
            )
        return np.array(np.broadcast_to(array, (size,)))

    def _force_at(self, t: Any) -> Any:
        """The forces (m,) at a time."""
        if not callable(self.force):
            return self._constant_force
        found = self.force(t)
        if isinstance(found, Tracer):
            return found + np.zeros(self._pressing)
        array = as_floats(f"force {name_of(self.force)!r}", found)
        return np.broadcast_to(array, (self._pressing,))

    def _inputs(self, t: Any, q: Any, v: Any, force: Any) -> dict[str, Any]:
        """What the formula needs, by name."""
        at = {"q": q, "v": v, "force": force, "kp": self.kp, "kd": self.kd}
        at |= {"damping": self.damping}
        for i, reference in enumerate(self.references):
            state = pose_state_at(reference, t)
            at |= dict(zip((f"goal{i}", f"velocity{i}", f"acceleration{i}"), state, strict=True))
        if self.null_space is None:
            return at | {"null_damping": self._own_damping}
        return at | {"second": self.null_space(t, q, v)}

    def _efforts(self, t: Any, q: Any, v: Any, force: Any) -> Any:
        if isinstance(q, Tracer):
            tau, _, _, doubtful = self._formula(self._inputs(t, q, v, force))
            body = self._where.points.body[self._where.frames[0]]
            tau = stopped_where(tau, doubtful, SINGULAR_TASK + 8 * (body + 1))
            return self._mechanism.efforts(q, tau)
        return self._mechanism.efforts(q, self._numbers(t, q, v, force)[0])

    def _numbers(self, t: float, q: ArrayLike, v: ArrayLike, force: Any) -> list[Array]:
        """The efforts before they are those of the drives, and the errors."""
        at = self._inputs(t, as_floats("q", q), as_floats("v", v), force)
        own = self.null_space is None
        if own not in self._formulas:
            shapes = {n: np.shape(x) for n, x in at.items()}
            shapes |= dict.fromkeys(("v", *(() if own else ("second",))), (self.model.nv,))
            shapes["q"] = (self.model.nq,)
            self._formulas[own] = GraphFormula(shapes, self._formula)
        *found, doubtful = self._formulas[own](at)
        if not np.all(doubtful == 0):
            raise SingularMatrixError(
                f"hybrid force/position control of {self._framed()} is near a "
                f"singularity at t = {t:g} s: joint torques hardly accelerate a frame in some of "
                f"its directions ({self._listed()}). Remove directions of the task frame, or keep "
                "the path away from the singularity."
            )
        return found

    def _framed(self) -> str:
        return ", ".join(repr(self._where.points.names[i]) for i in self._where.frames)

    def _listed(self) -> str:
        return "; ".join(", ".join(DIRECTIONS[i] for i in x.rows) for x in self.tasks)

    def _formula(self, at: Mapping[str, Any]) -> tuple[Any, Any, Any, Any]:
        """tau, e and its rate of the motion directions, and whether they are in doubt."""
        model, where, q, v = self.model, self._where.points, at["q"], at["v"]
        damped = at["damping"] * v
        if "second" in at:
            second = at["second"]
        else:
            second = called(model, INVERSE_DYNAMICS, q, v, -at["null_damping"] * v)[0] + damped
        response = self._mechanism.traced_response
        if response is None:
            forms = (frame_pose, POINT_VELOCITIES, Lambda, POINT_ACCELERATIONS)
            modes = ("apply", "apply", "dense", "apply")
            X, V, admittance, drift = called(
                model, forms, q, v, second - damped, points=where, mode=modes
            )
        else:
            forms = (frame_pose, POINT_VELOCITIES, JACOBIAN_DOT_V, J)
            modes = ("apply", "apply", "apply", "dense")
            X, V, drift, jacobian = called(model, forms, q, v, points=where, mode=modes)
            admittance, vdot = response(q, v, second - damped, jacobian)
            drift = drift + (jacobian @ vdot).reshape(len(where), 6)
        rows: list[Any] = []
        lacking: list[Any] = []
        kinds: list[tuple[int, bool]] = []
        errors: list[Any] = []
        rates: list[Any] = []
        pushes: list[Any] = []
        for i, task in enumerate(self.tasks):
            matrix, pose, velocity, acceleration = self._relative(i, X, V, drift)
            goal, wanted = at[f"goal{i}"], at[f"acceleration{i}"]
            R = [[sum(goal[a, k] * pose[b, k] for k in range(3)) for b in range(3)]
                 for a in range(3)]  # fmt: skip
            e = [*log_of_matrix(R, ARRAYS), *(goal[a, 3] - pose[a, 3] for a in range(3))]
            for k in task.rows:
                rows.append(matrix[k])
                kinds.append((i, k < 3))
                if k in task.force:
                    pushes.append(at["force"][sum(x is not None for x in pushes)])
                    lacking.append(-self.force_damping * velocity[k] - acceleration[k])
                    continue
                n = len(errors)
                errors.append(e[k])
                rates.append(at[f"velocity{i}"][k] - velocity[k])
                feedback = at["kd"][n] * rates[n] + at["kp"][n] * errors[n]
                pushes.append(None)
                lacking.append(wanted[k] + feedback - acceleration[k])
        D = np.stack(rows)
        A = D @ admittance @ D.T
        m = len(rows)
        entries = [[A[i, j] for j in range(m)] for i in range(m)]
        force, doubtful = solved_directions(entries, lacking, kinds, self.singularity)
        force = [np.where(doubtful == 0, x, 0.0) for x in force]  # reported by the caller
        force = [x if p is None else x + p for x, p in zip(force, pushes, strict=True)]
        (push,) = called(
            model, J.T, q, (D.T @ np.stack(force)).reshape(len(where), 6), points=where
        )
        none = np.zeros(0)
        shown = [np.stack(x) if x else none for x in (errors, rates)]
        return second + push, shown[0], shown[1], doubtful

    def _relative(self, i: int, X: Any, V: Any, A: Any) -> tuple[Any, Any, Any, Any]:
        """Rows (6, 6 points) of the motion of a frame relative to its base, in the base's axes.

        And its pose there (3, 4), its velocity, and its acceleration. With d from base to frame,
        d/dt of R* (v − v_b − ω_b × d) has the terms −2 ω_b × (v − v_b) + ω_b × (ω_b × d) of
        velocities.
        """
        c, base, count = self._where.frames[i], self._where.bases[i], len(self._where.points)
        zero = np.zeros((3, 3))
        turn, at = X[c][:3, :3], X[c][:3, 3]
        w, u = V[c][:3], V[c][3:]
        fixed = not isinstance(base, int)
        R, origin = (X[base][:3, :3], X[base][:3, 3]) if not fixed else (base[:3, :3], base[:3, 3])
        back, d = R.T, at - origin
        pose = np.concatenate([back @ turn, (back @ d).reshape(3, 1)], axis=1)
        blocks: list[Any] = [np.zeros((6, 6))] * count
        blocks[c] = np.block([[back, zero], [zero, back]])
        if fixed:
            velocity = np.concatenate([back @ w, back @ u])
            acceleration = np.concatenate([back @ A[c][:3], back @ A[c][3:]])
            return np.concatenate(blocks, axis=1), pose, velocity, acceleration
        w_b, u_b = V[base][:3], V[base][3:]
        blocks[base] = np.block([[-back, zero], [back @ _skew(d), -back]])
        gone = u - u_b
        velocity = np.concatenate([back @ (w - w_b), back @ (gone - np.cross(w_b, d))])
        spin = A[c][:3] - A[base][:3] - np.cross(w_b, w)
        slide = A[c][3:] - A[base][3:] - np.cross(A[base][:3], d)
        slide = slide - 2 * np.cross(w_b, gone) + np.cross(w_b, np.cross(w_b, d))
        acceleration = np.concatenate([back @ spin, back @ slide])
        return np.concatenate(blocks, axis=1), pose, velocity, acceleration


def _skew(d: Any) -> Any:
    zero = 0.0 * d[0]
    return np.stack([
        np.stack([zero, -d[2], d[1]]), np.stack([d[2], zero, -d[0]]), np.stack([-d[1], d[0], zero]),
    ])  # fmt: skip


def without_contacts(mechanism: Model, contacts: Sequence[str]) -> Model:
    """The system without the constraints of these names."""
    names = (contacts,) if isinstance(contacts, str) else tuple(contacts)
    if not names:
        return mechanism
    known = [c.name for c in getattr(mechanism, "constraints", ())]
    for name in names:
        if name not in known:
            raise InputError(
                f"contacts={contacts!r}: there is no constraint {name!r}. "
                f"{did_you_mean(str(name), known)}"
            )
    assert isinstance(mechanism, System)
    rest = [c for c in mechanism.constraints if c.name not in names]
    return System(mechanism.model, rest) if rest else mechanism.model


def _references(given: Any, tasks: Sequence[TaskFrame], *, single: bool) -> tuple[Any, ...]:
    listed = (given,) if single else tuple(given)
    if len(listed) != len(tasks):
        raise InputError(
            f"motion has {len(listed)} references for {len(tasks)} task frames; pass one for each"
        )
    for one in listed:
        if callable(one):
            check_signature(one, f"reference {name_of(one)!r}", "t")
    return tuple(x if callable(x) else ConstantPose(x) for x in listed)


def _gains(value: ArrayLike, count: int, what: str) -> Array:
    array = as_floats(what, value)
    if array.shape not in ((), (count,)) or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            f"{what}={value!r} must be one number or {count}, one per direction of the tasks, "
            "finite and not negative"
        )
    return np.array(np.broadcast_to(array, (count,)))
