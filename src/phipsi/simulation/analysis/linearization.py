"""linearize: the state-space model of a mechanism, open or with loops, at an operating point.

Small motions of a system with loops are those of some joints; the others follow.

Rows that are rates of a residual g(q) tie positions: G_h δq = 0 for a change δq. All rows,
G(q) v = rates, tie rates: G δv = −(∂G δq) v. Rolling wheels and soft fingers are nonholonomic, so
that a mechanism has more free positions than rates, and reaches them by rolling to and fro. With
ξ the changes of chosen positions and η those of chosen rates,

    δq = Z_q ξ,   δv = Z_v η + P ξ,   G_h Z_q = 0,   G Z_v = 0,   G P ξ = −(∂G Z_q ξ) v

and the accelerations follow from the equations of motion with constraints, differentiated at their
solution (vdot, f):

    [ℳ G*; G 0] d[vdot; f] = [−∂ID − (∂G)* f; −∂bias − (∂G) vdot]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import (
    ConstraintMetric,
    KKTSolver,
    System,
    driving_efforts,
    inverse_dynamics,
    jacobian,
)
from phipsi.core.calculus import diff
from phipsi.core.compiler import compile
from phipsi.core.model import Model, as_list, as_numbers, entry_names, rates_of, supports, tree_of
from phipsi.core.operators import J, v as rates
from phipsi.errors import InputError, true_or_false
from phipsi.simulation.analysis.law_linearization import ContinuousLaws, LawDerivatives
from phipsi.simulation.analysis.linear_system import LinearSystem
from phipsi.simulation.analysis.linearization_checks import check_operating_point
from phipsi.simulation.analysis.step_derivatives import GRADIENT_WITH_CONTACTS
from phipsi.simulation.integrators.motion import Motion

Array = NDArray[Any]
_DETERMINED = 1e-8  # in natural size: below it, the chosen joints do not determine the others
_OUTPUT = re.compile(r"^([qv])(?:\[(.+)\])?$")


@supports(loops=True, contacts=GRADIENT_WITH_CONTACTS, flexible=True, rotors=True)
def linearize(
    model: Model | System,
    q: ArrayLike,
    v: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[Any] = ("q",),
    damping: ArrayLike | bool = False,
    independent: Sequence[str] | None = None,
    equilibrium: bool = False,
    laws: Any = (),
    parameters: Mapping[str, ArrayLike] | None = None,
    states: Mapping[str, ArrayLike] | None = None,
    t: float = 0.0,
) -> LinearSystem:
    """State-space model (linearization) of small motions about an operating point.

    With x = [δq; δv], δq in the directions of v (q ∘ exp(δq), also for quaternion joints),

        A = [[−ad(v), I], [∂v̇/∂q, ∂v̇/∂v]],   B = [[0], [∂v̇/∂τ]]

    where ad(v) is the cross product with the velocities of spherical, free and planar joints and
    zero for all others. A system with loops has as many states as it can move: x holds the changes
    of `independent` joints, the others follow from the constraints, and ∂v̇ is that of the
    constrained accelerations. Nonholonomic rows (rolling, soft fingers) tie δv and not δq, so that
    there are more changes of positions in x than of velocities. The tau u and states s of `laws`
    add ∂u/∂q, ∂u/∂v and ∂u/∂s to ∂v̇ as changes of τ do, and ṡ to the end of x.

    Parameters
    ----------
    model : Model
        A tree, or a `System`.
    q : array_like, shape (nq,)
        Configuration.
    v : array_like, shape (nv,), optional
        Generalized velocities. Default: at rest.
    tau : array_like, shape (nv,), optional
        Joint torques and forces. Default: those of the `inputs` that hold the mechanism there, as
        far as they can.
    inputs : sequence of str, optional
        Names of the driven joints, and of parameters of laws, such as "hold.target". Default: all
        joints.
    outputs : sequence, optional
        Any of "q", "v" (all joints), "q[elbow]", "v[elbow]", ("position", point) and
        ("velocity", point) of a body, frame or (name, offset) in world axes.
    damping : array_like, shape (nv,), or bool, optional
        Damping: tau = −damping · v; True for the model's.
    independent : sequence of str, optional
        Names of joints of a system with loops, as many as velocities are free, to which positions
        are added that rolling leaves free, or as many as positions are free. Default: the best
        ones.
    equilibrium : bool, optional
        Whether to reject an operating point that accelerates.
    laws : optional
        Controllers and forces, as a `Simulator` takes them, none of them sampled.
    parameters, states : mapping of str to array_like, optional
        Parameters and states of laws by name; those of an `Equilibrium` fit. Default: their own.
    t : float, optional
        Time, s, for laws that depend on it.

    Returns
    -------
    LinearSystem
        The model; its `residual` says how far from equilibrium the point is.

    Notes
    -----
    **Cost:** that of `forward_dynamics_derivatives`; with loops O(nv³).
    **Source:** theory/sensitivities 5; theory/closed-chains 11.

    Examples
    --------
    >>> import numpy as np
    >>> import phipsi as pp
    >>> rod = pp.examples.planar_arm(1)
    >>> down = pp.linearize(rod, [-np.pi / 2])           # a pendulum: ± i √(3 g / 2 l)
    >>> down.poles().round(4)
    array([0.-3.836j, 0.+3.836j])
    >>> up = pp.linearize(rod, [np.pi / 2], damping=[0.1])
    >>> up.is_stable, up.is_controllable()
    (False, True)
    >>> held = [pp.forces.JointSpring("joint1", 20.0, rest=[np.pi / 2])]
    >>> held += [pp.forces.JointDamper("joint1", 1.0)]
    >>> pp.linearize(rod, [np.pi / 2], laws=held).is_stable
    True
    """
    tree = tree_of(model, linearize)
    equilibrium = true_or_false("equilibrium", equilibrium)
    at_q = _vector("q", q, tree.nq)
    at_v = np.zeros(tree.nv) if v is None else _vector("v", v, tree.nv)
    acting = ContinuousLaws(tree, laws, parameters, states, t)
    check_operating_point(tree, laws, at_v, damping, parameters)
    driven, set_points = acting.split(inputs)
    loss = _losses(tree, damping)
    motion = Motion(model)
    motion.check_start(at_q[None], at_v[None], ("q", "v"))
    loops = None if motion.system is None else SmallMotions(motion.system, at_q, at_v)
    if loops is None and independent is not None:
        raise InputError("independent= is for a System; every joint of a tree is independent")
    basis = Basis.free(tree.nv) if loops is None else loops.basis(independent)
    if tau is None:
        lost = loss * at_v - acting.efforts(at_q, at_v, np.zeros(tree.nv))
        effort = _efforts(tree, at_q, at_v, lost, driven, loops)
    else:
        effort = _vector("tau", tau, tree.nv)
    total = acting.efforts(at_q, at_v, effort) - loss * at_v
    vdot, by_q, by_v, by_tau = motion.linear(at_q, at_v, total)
    if equilibrium and np.abs(vdot).max(initial=0.0) > 1e-6 * max(1.0, np.abs(total).max()):
        raise InputError(_accelerates(tree, vdot))
    change = acting.derivatives(at_q, at_v, effort, (*set_points, *acting.states))
    change.efforts_by["v"] = change.efforts_by["v"] - np.diag(loss)
    rows, names = _outputs(tree, at_q, at_v, outputs)
    dofs = entry_names(tree, tree.v_slices)
    A, B = basis.dynamics(
        -motion.chart.bracket(at_v),
        by_q + by_tau @ change.efforts_by["q"],
        by_v + by_tau @ change.efforts_by["v"],
        by_tau @ change.columns(change.efforts_by, driven, set_points),
    )
    A, B = basis.with_states(A, B, by_tau, change, acting.states, driven, set_points)
    C = rows @ np.block([[basis.Z_q, np.zeros_like(basis.Z_v)], [basis.P, basis.Z_v]])
    return LinearSystem(
        A=A,
        B=B,
        C=np.hstack([C, np.zeros((len(C), len(A) - C.shape[1]))]),
        D=np.zeros((len(rows), B.shape[1])),
        state_names=(
            *(f"q[{dofs[i]}]" for i in basis.chosen_q),
            *(f"v[{dofs[i]}]" for i in basis.chosen_v),
            *acting.entries(acting.states),
        ),
        input_names=(*(f"tau[{dofs[i]}]" for i in driven), *acting.entries(set_points)),
        output_names=tuple(names),
        q=at_q,
        v=at_v,
        tau=effort,
        vdot=vdot,
    )


# ---- arguments -----------------------------------------------------------------------------------


def _vector(name: str, values: Any, size: int) -> Array:
    array = as_numbers(name, values)
    if array.dtype != np.float64:
        raise InputError(f"{name} holds {array.dtype}, but must be real numbers")
    if array.shape != (size,):
        raise InputError(
            f"{name} has shape {array.shape}, but one operating point has ({size},); linearize "
            "takes one at a time"
        )
    if not np.isfinite(array).all():
        raise InputError(f"{name} = {array.tolist()} has a number that is not finite")
    return array


def _losses(model: Model, damping: Any) -> Array:
    if isinstance(damping, (bool, np.bool_)):
        return np.array(model.damping) if damping else np.zeros(model.nv)
    return _vector("damping", damping, model.nv)


def _efforts(
    model: Model, q: Array, v: Array, lost: Array, driven: Array, loops: SmallMotions | None
) -> Array:
    """Efforts of the driven joints that leave the least acceleration; some efforts are `lost`."""
    needed = inverse_dynamics(model, q, v, np.zeros(model.nv)) + lost
    out = np.zeros(model.nv)
    out[driven] = needed[driven] if loops is None else loops.efforts(needed, driven)
    return out


def _accelerates(model: Model, vdot: Array) -> str:
    i = int(np.abs(vdot).argmax())
    name = entry_names(model, model.v_slices)[i]
    return (
        f"the operating point is not an equilibrium: joint {name!r} accelerates by {vdot[i]:.4g} "
        "(rad/s² or m/s²). Pass tau= that holds it, drive more joints (inputs=), or remove "
        "equilibrium=True to linearize about the motion."
    )


# ---- outputs -------------------------------------------------------------------------------------


def _outputs(model: Model, q: Array, v: Array, wanted: Any) -> tuple[Array, list[str]]:
    """Rows of C for x = [δq; δv] of all joints, and their names."""
    listed = as_list("outputs", wanted, '["q", "v"]')
    nv = model.nv
    dofs = entry_names(model, model.v_slices)
    rows, names = [np.zeros((0, 2 * nv))], list[str]()
    for one in listed:
        found = _OUTPUT.match(one) if isinstance(one, str) else None
        if found:
            which, joint = found.groups()
            chosen = rates_of(model, joint)
            rows.append(np.eye(2 * nv)[chosen + nv * (which == "v")])
            names += [f"{which}[{dofs[i]}]" for i in chosen]
            continue
        if not (isinstance(one, tuple) and len(one) == 2 and one[0] in ("position", "velocity")):
            raise InputError(
                f"output {one!r} is unknown; available are 'q', 'v', 'q[joint]', 'v[joint]', "
                "('position', point) and ('velocity', point)"
            )
        what, point = one
        place = jacobian(model, q, [point])[3:]
        row = np.zeros((3, 2 * nv))
        if what == "position":
            row[:, :nv] = place
        else:
            moving = diff(J @ rates, "q", modes=model.has_more_rows)
            change = compile(moving, model, mode="dense", points=[point])
            row[:, :nv], row[:, nv:] = change(q, v)[3:], place
        rows.append(row)
        label = point if isinstance(point, str) else point[0]
        names += [f"{what}[{label}, {axis}]" for axis in "xyz"]
    return np.vstack(rows), names


# ---- loops ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Basis:
    """How all joints move with the chosen ones: δq = Z_q ξ, δv = Z_v η + P ξ.

    ξ are the changes of the positions `chosen_q`, η those of the rates `chosen_v`.
    """

    chosen_q: Array
    chosen_v: Array
    Z_q: Array
    Z_v: Array
    P: Array

    @staticmethod
    def free(nv: int) -> Basis:
        """Of a tree: every joint is chosen."""
        every, eye = np.arange(nv), np.eye(nv)
        return Basis(every, every, eye, eye, np.zeros((nv, nv)))

    def dynamics(
        self, turning: Array, by_q: Array, by_v: Array, by_tau: Array
    ) -> tuple[Array, Array]:
        """A and B of ẋ = A x + B u for x = [ξ; η], from δq̇ = turning δq + δv and those of v̇."""
        kept_q, kept_v, Z_q, Z_v, P = self.chosen_q, self.chosen_v, self.Z_q, self.Z_v, self.P
        above = np.hstack([(turning @ Z_q + P)[kept_q], Z_v[kept_q]])
        below = np.hstack([(by_q @ Z_q + by_v @ P)[kept_v], (by_v @ Z_v)[kept_v]])
        B = np.vstack([np.zeros((len(kept_q), by_tau.shape[1])), by_tau[kept_v]])
        return np.vstack([above, below]), B

    def with_states(
        self,
        A: Array,
        B: Array,
        by_tau: Array,
        change: LawDerivatives,
        states: Sequence[str],
        driven: Array,
        set_points: Sequence[str],
    ) -> tuple[Array, Array]:
        """The same with the states of laws at the end of x."""
        if not states:
            return A, B
        efforts = by_tau @ np.hstack([change.efforts_by[name] for name in states])
        beside = np.vstack(
            [np.zeros((len(self.chosen_q), efforts.shape[1])), efforts[self.chosen_v]]
        )
        rates = change.rates_by
        by_q = rates["q"] @ self.Z_q + rates["v"] @ self.P
        own = np.hstack([by_q, rates["v"] @ self.Z_v, *(rates[name] for name in states)])
        A = np.vstack([np.hstack([A, beside]), own])
        return A, np.vstack([B, change.columns(rates, driven, set_points)])


class SmallMotions:
    """Small motions of a system about a state that satisfies its constraints."""

    def __init__(self, system: System, q: Array, v: Array) -> None:
        self.system, self.q, self.v = system, q, v
        rows = system.rows
        self._rates = ConstraintMetric(rows, q[None])
        self._positions = self._rates
        if not rows.has_position.all():
            self._positions = ConstraintMetric(rows, q[None], rows_used=rows.has_position)

    def basis(self, independent: Sequence[str] | None) -> Basis:
        """The motion in the joints that are named, or in those that are best suited."""
        chosen_q, chosen_v = self._chosen(independent)
        Z_q, Z_v = self._positions.motions(chosen_q), self._rates.motions(chosen_v)
        P = np.zeros_like(Z_q)
        if self.v.any() and len(chosen_q):
            solver = KKTSolver(self.system, self.q[None])
            P = -solver.least(solver.rates_by_q(self.v[None]))[0] @ Z_q
            P = P - Z_v @ P[chosen_v]
        return Basis(chosen_q, chosen_v, Z_q, Z_v, P)

    def efforts(self, needed: Array, driven: Array) -> Array:
        """Efforts (k,) of the driven rates that do most of what efforts (nv,) would do."""
        at = self._rates
        return driving_efforts(at, (needed @ at.back[0])[None], driven, np.ones(len(driven)))[0][0]

    def _chosen(self, independent: Sequence[str] | None) -> tuple[Array, Array]:
        """Positions and rates that determine the others: those named, or the best ones.

        As many names as free rates leave it open which further positions are independent; the best
        ones are added. Of as many names as free positions the best suited rates are taken.
        """
        best_v = self._rates.independent_rates()
        if independent is None:
            return self._positions.independent_rates(tuple(best_v)), best_v
        tree = self.system.model
        named = rates_of(tree, independent)
        n_q, n_v = tree.nv - int(self._positions.rank[0]), len(best_v)
        if len(named) == n_v and _determine(self._rates, named):
            more = self._positions.independent_rates(tuple(named))
            return np.array([*named, *(i for i in more if i not in named)], dtype=int), named
        if len(named) == n_q and _determine(self._positions, named):
            rates = self._rates.independent_rates(among=named)
            if _determine(self._rates, rates):
                return named, rates
        dofs = entry_names(tree, tree.v_slices)
        count = f"{n_v}" if n_q == n_v else f"{n_v} (or, with those of positions only, {n_q})"
        raise InputError(
            f"independent={independent!r} has {len(named)} degrees of freedom and does not "
            f"determine the {count} of the system here. These do: {[dofs[i] for i in best_v]}"
        )


def _determine(at: ConstraintMetric, chosen: Array) -> bool:
    """Whether the chosen rates determine the others."""
    if not len(chosen):
        return True
    return float(np.linalg.svd(at.coordinates()[chosen], compute_uv=False)[-1]) > _DETERMINED
