"""Control of an object that several arms hold: its motion, the internal forces, the load shares.

Reasons: docs/decisions/0077.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import INVERSE_DYNAMICS, JACOBIAN_DOT_V, POINT_VELOCITIES, ROW_DRIFT
from phipsi.core.arrays import Tracer, as_node, call, parameters_by_name, with_numbers
from phipsi.core.model import Model, Pose, as_floats, point_set
from phipsi.core.operators import A, J, frame_pose, mass_matrix
from phipsi.core.spatial import ARRAYS, log_of_matrix
from phipsi.errors import InputError, true_or_false
from phipsi.grasping import Grasp
from phipsi.laws import Law, signals
from phipsi.simulation.control.compiled_control import GraphFormula, called, stopped_where
from phipsi.simulation.control.references import ConstantPose, PoseReference, pose_state_at
from phipsi.simulation.control.row_equations import RowEquations, RowSolve
from phipsi.simulation.runs.checks import checked_number
from phipsi.simulation.runs.rollout import UNHELD
from phipsi.simulation.runs.user_functions import check_signature, name_of
from phipsi.support import one_line

Array = NDArray[Any]
_MISSED = 1e-6  # of the accelerations and loads that the arms are asked for, relative


@final
class GraspControl:
    """Control of a held object: its motion, the internal forces, and how the arms share the load.

    ``control(t, q, v)`` returns tau (..., nv), zero at the object. With the acceleration of the
    object α = A_ref + kd (V_ref − V) + kp e as for `OperationalSpace`:

    1. accelerations v̇ of all joints that keep the contacts and give the object α, with least
       kinetic energy beside −`null_damping` v;
    2. contact multipliers f with W f = the load that the object needs for α, W the grasp map, next
       to the `internal` forces: the least Σ weights (f − f_internal)²;
    3. tau = inverse dynamics of v̇ + (A J)* f.

    So the object follows, the arms share its load as the weights say, and what of the internal
    forces does not load the object is as commanded: exactly, if contacts neither open nor slip and
    the model is right. `feedback` closes a loop around the measured contact forces.

    A compiled simulation records "GraspControl.multipliers", the f that are commanded;
    ``grasp.check(q, v, tau, f=…)`` says whether they are inside the friction cones.

    Parameters
    ----------
    grasp : Grasp
        Arms that hold one rigid body; every joint of the arms is actuated.
    reference : callable, Pose or array_like
        The pose of the object in the world, as for `OperationalSpace`.
    kp, kd : array_like
        Gains, 1/s² and 1/s, numbers or one for each of [rotation; translation] in world axes.
    internal : callable or array_like, optional
        Normal forces (contacts,), N, with which the fingers press beside carrying the load, or
        forces (contacts, 3) in contact axes (a finger that pushes has a negative z), or a function
        of t that returns either. Default: none.
    weights : array_like, shape (contacts,) or (rows,), optional
        Cost of the multipliers of each contact, above 0: a contact with a smaller weight carries
        more. Default: 1.
    null_damping : float, optional
        Rate at which motions of the arms die out that do not move the object, 1/s. Default: 2.
    compensate_damping : bool, optional
        As for `ComputedTorque`.

    Notes
    -----
    **Cost:** O(nv³). **Source:** MC sec. 6 (Kreutz and Lokshin 1988); 88-11 Part II eq. 2.9.

    Examples
    --------
    >>> import phipsi as pp
    >>> grasp = pp.examples.two_finger_grasp()
    >>> q, rest = grasp.model.neutral(), [0.0] * 10
    >>> hold = pp.control.GraspControl(
    ...     grasp, pp.poses(grasp, q, ["box"])[0], kp=100, kd=20, internal=5.0
    ... )
    >>> hold(0.0, q, rest).round(4)[:4]
    array([ 1. ,  0.5, -1. , -0.5])
    """

    parameters: ClassVar[Mapping[str, str]] = {
        "kp": "kp", "kd": "kd", "weights": "weights", "internal": "_constant_internal",
        "null_damping": "_damping_rate", "reference": "reference",
    }  # fmt: skip
    records: ClassVar[tuple[str, ...]] = ("multipliers",)

    def __init__(
        self,
        grasp: Grasp,
        reference: PoseReference | Pose | ArrayLike,
        kp: ArrayLike,
        kd: ArrayLike,
        *,
        internal: Callable[[float], ArrayLike] | ArrayLike = 0.0,
        weights: ArrayLike | None = None,
        null_damping: float = 2.0,
        compensate_damping: bool = False,
    ) -> None:
        _check_grasp(grasp)
        self.grasp, self.model = grasp, grasp.model
        if callable(reference):
            check_signature(reference, f"reference {name_of(reference)!r}", "t")
        self.reference = reference if callable(reference) else ConstantPose(reference)
        self.kp, self.kd = (_six(x, n) for x, n in ((kp, "kp"), (kd, "kd")))
        self._normals = np.array([
            np.linalg.pinv(_force_map(grasp, i)) for i in range(len(grasp.contacts))
        ])  # fmt: skip
        self.internal = internal
        self._constant_internal: Array | None = None
        if callable(internal):
            check_signature(internal, f"internal {name_of(internal)!r}", "t")
        else:
            self._constant_internal = self._checked_internal(internal, "internal")
        self.weights = grasp.row_weights(weights)
        kind = "a finite number of 1/s,"
        self.null_damping = checked_number(null_damping, "null_damping", kind, zero=True)
        self._damping_rate = np.array(self.null_damping)
        compensated = true_or_false("compensate_damping", compensate_damping)
        self.damping = self.model.damping if compensated else np.zeros(self.model.nv)
        self._where = point_set(self.model, [grasp.object[0]])
        self._equations = RowEquations(grasp)
        self._formulas: list[GraphFormula] = []

    def __repr__(self) -> str:
        return one_line(self, self.grasp, self.reference, kp=self.kp, kd=self.kd)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_formulas": []}

    def __call__(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """Return tau (..., nv)."""
        return self._results(t, q, v, self._internal_at(t))[0]

    def multipliers(self, t: float, q: ArrayLike, v: ArrayLike) -> Array:
        """The contact multipliers f (..., rows) that are commanded."""
        return self._results(t, q, v, self._internal_at(t))[1]

    def feedback(
        self,
        ki: ArrayLike,
        *,
        limit: ArrayLike | None = None,
        rate: float | None = None,
        delay: int = 0,
        name: str = "grasp",
    ) -> Law:
        """This controller with feedback of the contact forces, as a law of a `Simulator`.

        The internal forces are f_internal + i with i̇ = ki (f − f_measured), i within ±limit; f are
        the multipliers that are commanded, and those that are measured are `constraint_loads`. The
        part of i that would load the object has no effect.

        Parameters
        ----------
        ki : array_like
            Gains of the integral, 1/s, a number or one per contact row.
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
            With the state "grasp.integral"; it records "grasp.multipliers", those that are
            commanded, and "grasp.error".
        """
        size = self.grasp.n_rows
        own = parameters_by_name(self)

        def grasp(t: Any, q: Any, v: Any, **given: Any) -> dict[str, Any]:
            control = with_numbers(self, {n: x for n, x in given.items() if n in own})
            integral, most = given["integral"], given["limit"]
            wanted, kept = control._internal_at(t), np.clip(integral, -most, most)
            target = control._results(t, q, v, wanted)[1]
            error = target - given["measured"]
            change = given["ki"] * (error + kept - integral)
            moved = change if rate is None else integral + given["interval"] * change
            tau, f = control._results(t, q, v, wanted + kept)
            return {"tau": tau, "integral": moved, "multipliers": f, "error": error}

        grasp.__wrapped__ = self  # type: ignore[attr-defined]
        arguments = ("t", "q", "v", "measured", "integral", "interval", "ki", "limit", *own)
        first = {"integral": np.zeros(size)}
        kinds: dict[str, Any] = {"states": first} if rate is None else {"discrete": first}
        made = Law(grasp, name, arguments, **kinds)
        if rate is not None:
            made = made.sampled(rate, delay)
        numbers = {
            "ki": _positive(ki, size, "ki"),
            "limit": np.full(size, 1e300) if limit is None else _positive(limit, size, "limit"),
        }
        measured = signals.constraint_loads(*self.grasp.contact_names)
        return made.bind(measured=measured, interval=signals.interval(), **numbers, **own)

    # ---- internal forces

    def _checked_internal(self, given: Any, what: str) -> Array:
        """Multipliers (rows,) of normal forces or of forces in contact axes."""
        array, count = as_floats(what, given), len(self.grasp.contacts)
        if array.shape in ((), (count,)):
            normal = np.broadcast_to(array, (count,))
            array = normal[:, None] * np.array([0.0, 0.0, -1.0])
        if array.shape != (count, 3) or not np.isfinite(array).all():
            raise InputError(
                f"{what}={given!r} must be one number, {count} normal forces (N) or "
                f"({count}, 3) forces in contact axes, finite"
            )
        return self._multipliers_of(array)

    def _multipliers_of(self, forces: Any) -> Any:
        """Multipliers (rows,) of forces (contacts, 3) in contact axes."""
        return sum(self._normals[i] @ forces[i] for i in range(len(self._normals)))

    def _internal_at(self, t: Any) -> Any:
        if not callable(self.internal):
            return self._constant_internal
        found = self.internal(t)
        if not isinstance(found, Tracer):
            return self._checked_internal(found, f"internal {name_of(self.internal)!r}")
        if len(found.shape) == 2:
            return self._multipliers_of(found)
        normal = found + np.zeros(len(self._normals))
        return self._multipliers_of(normal.reshape(-1, 1) * np.array([[0.0, 0.0, -1.0]]))

    # ---- the formula

    def _inputs(self, t: Any, q: Any, v: Any, internal: Any) -> dict[str, Any]:
        goal, velocity, acceleration = pose_state_at(self.reference, t)
        return {
            "q": q, "v": v, "internal": internal, "goal": goal, "velocity": velocity,
            "acceleration": acceleration, "kp": self.kp, "kd": self.kd, "weights": self.weights,
            "null_damping": self._damping_rate, "damping": self.damping,
        }  # fmt: skip

    def _results(self, t: Any, q: Any, v: Any, internal: Any) -> tuple[Any, Any]:
        """tau and f."""
        if isinstance(q, Tracer):
            tau, f, missed = self._formula(self._inputs(t, q, v, internal))
            return stopped_where(tau, missed, UNHELD), f
        at = self._inputs(t, as_floats("q", q), as_floats("v", v), internal)
        if not self._formulas:
            shapes = {n: np.shape(x) for n, x in at.items()}
            shapes |= {"q": (self.model.nq,), "v": (self.model.nv,)}
            self._formulas.append(GraphFormula(shapes, self._formula))
        tau, f, missed = self._formulas[0](at)
        if not np.all(missed == 0):
            raise InputError(
                f"the contacts {list(self.grasp.contact_names)} cannot give the object "
                f"{self.grasp.object[0]!r} the motion of the reference at t = {t:g} s: arms are "
                "singular or have too few joints, or no contact forces carry the load. Add a "
                "contact or a joint, or keep the reference away from such configurations."
            )
        return tau, f

    def _formula(self, at: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """tau, f, and 1.0 where the object does not get its acceleration or its load."""
        grasp, model, q, v = self.grasp, self.model, at["q"], at["v"]
        forms = (frame_pose, POINT_VELOCITIES, JACOBIAN_DOT_V, J, mass_matrix)
        modes = ("apply", "apply", "apply", "dense", "dense")
        X, V, drift, jacobian, mass = called(model, forms, q, v, points=self._where, mode=modes)
        rows, row_drift = called(grasp, (A @ J, ROW_DRIFT), q, v, mode=("dense", "apply"))
        X, V, drift, goal = X[0], V[0], drift[0], at["goal"]
        turn = goal[:3, :3] @ X[:3, :3].T
        turned = log_of_matrix([[turn[i, j] for j in range(3)] for i in range(3)], ARRAYS)
        e = np.concatenate([np.stack(list(turned)), goal[:3, 3] - X[:3, 3]])
        wanted = at["acceleration"] + at["kd"] * (at["velocity"] - V) + at["kp"] * e
        # 1. accelerations
        both = np.concatenate([rows, jacobian], axis=0)
        asked = np.concatenate([-row_drift, wanted - drift])
        scales = np.concatenate([self._equations.scales, self._scales])
        vdot = _solve(mass, both, mass @ (-at["null_damping"] * v), asked, scales)
        # 2. multipliers
        (needed,) = called(model, INVERSE_DYNAMICS, q, v, vdot)
        needed = needed + at["damping"] * v
        contact_rows = rows[: grasp.n_rows]
        load = needed[grasp.object_rates]
        W = -contact_rows[:, grasp.object_rates].T
        weights = at["weights"]
        f = _solve(
            np.diag(np.ones(grasp.n_rows)) * weights, W, weights * at["internal"], load,
            np.ones(len(grasp.object_rates)),
        )  # fmt: skip
        # 3. efforts
        tau = self._driven * (needed + contact_rows.T @ f)
        missed = _missed(both @ vdot, asked) + _missed(W @ f, load)
        return tau, f, np.where(missed == 0, 0.0, 1.0)

    @property
    def _driven(self) -> Array:
        """1 at rates of the arms."""
        out = np.ones(self.model.nv)
        out[self.grasp.object_rates] = 0.0
        return out

    @property
    def _scales(self) -> Array:
        """One over the natural sizes of the object's directions: those of the object alone."""
        body = self.model.inertias[self.model.body_index(self.grasp.object[0])]
        turning = np.sqrt(np.trace(body.moment_about_com_B) / 3)
        return np.repeat([turning, np.sqrt(body.mass)], 3)


def _solve(P: Any, G: Any, c: Any, e: Any, scales: Any) -> Any:
    """x of P x + G* f = c, G x = e."""
    (m, n) = G.shape
    args = (P, G, c.reshape(-1, 1), e.reshape(-1, 1), scales)
    return Tracer(call(RowSolve(n, m, 1), *map(as_node, args))[0])[:, 0]


def _missed(found: Any, asked: Any) -> Any:
    """How many of these are not what was asked for; 1.0 each also if they are not numbers."""
    size = 1.0 + np.max(np.abs(asked))
    return np.sum(np.where(np.abs(found - asked) <= _MISSED * size, 0.0, 1.0))


def _force_map(grasp: Grasp, contact: int) -> Array:
    """The force (3, rows) on the object in contact axes, of the multipliers of a contact alone."""
    out = np.zeros((3, grasp.n_rows))
    closures = grasp.closures.closures
    first = sum(len(c.rows) for c in closures[:contact])
    units = dict(zip(("rx", "ry", "rz"), np.eye(3), strict=True))
    for i, form in enumerate(closures[contact].forms):
        if form in units:
            out[:, first + i] = grasp.contacts[contact].turn() @ units[form]
    return out


def _check_grasp(grasp: Any) -> None:
    if not isinstance(grasp, Grasp):
        raise InputError(
            f"GraspControl takes a grasp, not {grasp!r}:\n"
            "    pp.grasping.Grasp(model, object='box', contacts=[…])"
        )
    model: Model = grasp.model
    if not grasp.contacts:
        raise InputError("the grasp has no contacts, so nothing holds its object")
    others = grasp.constraints[len(grasp.contacts) :]
    for present, why in (
        (len(grasp.object) > 1, "an object with joints, whose motion is not that of one pose"),
        (bool(others), "constraints besides the contacts of the grasp"),
        (grasp.contact_pairs is not None, "shapes that may touch (touching=)"),
        (model.is_flexible, "flexible bodies, whose modes are not actuated"),
    ):
        if present:
            raise InputError(f"GraspControl does not support {why}")


def _six(value: ArrayLike, what: str) -> Array:
    return _positive(value, 6, what)


def _positive(value: ArrayLike, count: int, what: str) -> Array:
    array = as_floats(what, value)
    if array.shape not in ((), (count,)) or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(f"{what}={value!r} must be one number or {count}, finite and not negative")
    return np.array(np.broadcast_to(array, (count,)))
