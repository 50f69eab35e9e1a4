"""Mechanisms under control: efforts of the joints that have a drive, loops included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import BIAS_FORCES, Actuation, ConstraintMetric, Ranked, System, rows_of
from phipsi.core.arrays import Tracer
from phipsi.core.model import Model, flat_batch, mechanism_of
from phipsi.core.operators import mass_matrix
from phipsi.errors import ConvergenceError, InputError
from phipsi.simulation.control.compiled_control import Response, called, joint_rates
from phipsi.simulation.control.row_equations import RowEquations
from phipsi.simulation.runs.rollout import UNDRIVEN
from phipsi.transmissions import Motor

Array = NDArray[Any]
_SAMPLES = 3


def _without_motors(mechanism: Model) -> list[str] | None:
    """The joints that no `Motor` moves, clocks among these; None if that is all or none.

    A target at a joint that goes its own way would only pull the others from theirs.
    """
    names = list(mechanism.model.joint_names)
    moved = {c.joint for c in getattr(mechanism, "constraints", ()) if isinstance(c, Motor)}
    left = [name for name in names if name not in moved]
    return left if left and moved else None


def _reject_floating(tree: Model, controller: str) -> None:
    """Reject efforts at free joints that nobody has called driven."""
    pairs = list(zip(tree.joint_names, tree.joints, strict=True))
    floating = [name for name, joint in pairs if joint.kind == "free"]
    if not floating:
        return
    rest = [name for name in tree.joint_names if name not in floating]
    shown = repr(rest[:3])[:-1] + (", …]" if len(rest) > 3 else "]")
    listed = ", ".join(map(repr, floating))
    alone = (
        (
            "For a legged robot, control only its joints:\n"
            f"    pp.laws.pid({shown}, target, kp=…, kd=…)\n"
            "For a robot in weightlessness whose base reacts to its joints:\n"
            f"    {controller}(model, …, actuated={shown})\n"
        )
        if rest
        else ""
    )
    raise InputError(
        f"{controller} computes torques at every joint, and the free joint {listed} has no "
        "actuator: a floating base is moved by contacts, or by thrusters.\n"
        f"{alone}If thrusters act along all six directions, pass all joints:\n"
        f"    {controller}(model, …, actuated=model.joint_names)"
    )


@final
class DrivenMechanism:
    """A mechanism and its drives.

    Constraint forces do no work, so only Z* tau matters to the motion, Z = null(A J): efforts at
    all joints are replaced by those of the drives with the same Z* tau. Where there are more drives
    than degrees of freedom, Σ tau² is least.

    **Arguments:** the mechanism; the controller it is for; names of the `actuated` joints, None for
    all that no `Motor` moves, if none of them is free and floats. **Attributes:** `tree`;
    `is_tree`, whether it has no constraints and every joint a drive, so that efforts and
    accelerations stay as they are; `driven` (nv,), 1 at rates with a drive.
    """

    def __init__(
        self, mechanism: Model, controller: Callable[..., Any], actuated: Sequence[str] | None
    ) -> None:
        self._whole = whole = mechanism_of(mechanism, controller)
        self.tree: Model = whole.model
        if actuated is None:
            _reject_floating(self.tree, controller.__name__)
            actuated = _without_motors(whole)
        self._rows, self._drives = rows_of(whole), Actuation(whole, actuated)
        every = len(np.unique(self._drives.rates)) == self.tree.nv
        self.is_tree = (actuated is None or every) and not whole.n_rows
        self._equations = RowEquations(whole)
        self.driven = np.zeros(self.tree.nv)
        self.driven[self._drives.rates] = 1.0
        if self.tree.is_flexible:
            if not self.is_tree:
                raise InputError(
                    f"{controller.__name__} with flexible bodies requires every joint to be "
                    "actuated, because the share of the weight that each actuator carries "
                    "depends on the deformation.\n"
                    "To ignore the deformation, make the bodies rigid:\n"
                    "    model.with_rigid_bodies()"
                )
            self.driven *= joint_rates(self.tree)

    def efforts(self, q: ArrayLike, tau: Array) -> Array:
        """Efforts (..., nv) of the drives that move the mechanism as tau (..., nv) would.

        Raises `InputError` where the drives do not suffice; it names the joints that lack one.
        """
        if self.is_tree:
            return tau
        if isinstance(q, Tracer):
            self._check_drives()
            P = np.diag(self.driven)
            found = self._equations.solved(q, P, tau, np.zeros(self._equations.n_rows), UNDRIVEN)
            return self.driven * found
        batch = np.broadcast_shapes(np.shape(q)[:-1], tau.shape[:-1])
        at, load = self.metric(q, batch), _flat(tau, batch)
        return self._drives.replacing(at, load).reshape(*batch, self.tree.nv)

    def accelerations(self, q: ArrayLike, v: ArrayLike, u: Array) -> Array:
        """Accelerations (..., nv) that keep the constraints, nearest to u at the driven joints.

        Nearest in the kinetic energy of the driven joints alone. With as many drives as degrees of
        freedom the driven joints get the accelerations that u has for them; the others follow.
        """
        if self.is_tree:
            return u
        if isinstance(q, Tracer):
            (mass,) = called(self.tree, mass_matrix, q, mode="dense")
            P = mass * np.outer(self.driven, self.driven)
            drift = self._equations.drift(q, v)
            return self._equations.solved(q, P, P @ u, -drift, UNDRIVEN)
        batch = np.broadcast_shapes(np.shape(q)[:-1], np.shape(v)[:-1], u.shape[:-1])
        at, wanted, driven = self.metric(q, batch), _flat(u, batch), self._drives.rates
        own = at.solve(-self._rows.bias(at.q, _flat(v, batch)))  # of the constraints themselves
        half = np.linalg.inv(at.back)
        mass = (np.swapaxes(half, -1, -2) @ half)[:, driven[:, None], driven]
        measure = np.swapaxes(np.linalg.cholesky(mass), -1, -2)
        along = at.back @ at.free
        inverse = Ranked(measure @ along[:, driven]).pseudo_inverse()
        missing = (wanted - own)[:, driven, None]
        found = own + (along @ inverse @ measure @ missing)[..., 0]
        return found.reshape(*batch, self.tree.nv)

    def response(self, q: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
        """Accelerations by efforts (..., nv, nv), and those that the constraints ask for (..., nv).

        vdot = Y (tau − bias) + own keeps the constraints; Y = ℳ⁻¹ without any.
        """
        batch, nv = np.broadcast_shapes(np.shape(q)[:-1], np.shape(v)[:-1]), self.tree.nv
        at = self.metric(q, batch)
        own = at.solve(-self._rows.bias(at.q, _flat(v, batch)))
        return at.by_efforts.reshape(*batch, nv, nv), own.reshape(*batch, nv)

    def metric(self, q: ArrayLike, batch: tuple[int, ...]) -> ConstraintMetric:
        """The constraint rows at configurations (..., nq)."""
        return ConstraintMetric(self._rows, _flat(q, batch))

    # ---- in compiled runs -----------------------------------------------------------------------

    def _check_drives(self) -> None:
        """Reject drives that suffice at none of some configurations; a run would not say why."""
        rng = np.random.default_rng(0)
        tau, error = rng.standard_normal(self.tree.nv), None
        whole = self._whole
        for q in (self.tree.neutral(), *self.tree.random_configuration(rng, (_SAMPLES,))):
            try:
                self.efforts(whole.assemble(q) if isinstance(whole, System) else q, tau)
                return
            except ConvergenceError:
                continue
            except InputError as found:
                error = found
        if error is not None:
            raise error

    @property
    def traced_response(self) -> Response | None:
        """What `operational_efforts` needs of a mechanism with constraints; None for trees."""
        return None if self.is_tree else self._traced_response

    def _traced_response(self, q: Any, v: Any, tau: Any, jacobian: Any) -> tuple[Any, Any]:
        mass, bias = called(self.tree, (mass_matrix, BIAS_FORCES), q, v, mode=("dense", "apply"))
        columns = np.concatenate([jacobian.T, (tau - bias).reshape(-1, 1)], axis=1)
        drift = -self._equations.drift(q, v).reshape(-1, 1)
        rest = np.zeros((self._equations.n_rows, jacobian.shape[0]))
        found = self._equations.solved(q, mass, columns, np.concatenate([rest, drift], axis=1))
        return jacobian @ found[:, :-1], found[:, -1]


def _flat(values: Any, batch: tuple[int, ...]) -> Array:
    return flat_batch(np.asarray(values, dtype=np.float64), batch)
