"""linearize: the state-space model of a mechanism, open or with loops, at an operating point."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.dynamics.equations_of_motion import inverse_dynamics
from phipsi.algorithms.kinematics.motions import jacobian
from phipsi.calculus.differentiation import diff
from phipsi.compiler import compile
from phipsi.errors import InputError, did_you_mean
from phipsi.model.mechanisms import of_mechanisms, tree_of
from phipsi.model.model import Model
from phipsi.model.numbers import as_numbers
from phipsi.motion.entry_names import entry_names
from phipsi.motion.linear_system import LinearSystem
from phipsi.motion.motion import Motion
from phipsi.motion.small_motions import Basis, SmallMotions
from phipsi.operators import J
from phipsi.operators import v as rates

Array = NDArray[Any]
_OUTPUT = re.compile(r"^([qv])(?:\[(.+)\])?$")


@of_mechanisms
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
) -> LinearSystem:
    """State-space model of small motions about an operating point.

    With x = [δq; δv], δq in the directions of v (q ∘ exp(δq), also for quaternion joints),

        A = [[−ad(v), I], [∂v̇/∂q, ∂v̇/∂v]],   B = [[0], [∂v̇/∂τ]]

    where ad(v) is the cross product with the rates of spherical, free and planar joints and zero
    for all others. A system with loops has as many states as it can move: x holds the changes of
    `independent` joints, the others follow from the constraints, and ∂v̇ is that of the
    constrained accelerations. Rows that bind rates only (rolling, soft fingers) tie δv and not δq,
    so that there are more changes of positions in x than of rates.

    **Arguments:** `model`, or a `System`; `q` (nq,); `v` (nv,), at rest if None; `tau` (nv,), by
    default the efforts of the `inputs` that hold the mechanism there, as far as they can; `inputs`,
    names of the driven joints (default: all); `outputs`, any of "q", "v" (all joints), "q[elbow]",
    "v[elbow]", ("position", point) and ("velocity", point) of a body, frame or (name, offset) in
    world axes; `damping` (nv,), efforts −damping · v, or True for the model's; `independent`, names
    of joints of a system with loops (default: the best ones), as many as rates are free, to which
    positions are added that rolling leaves free, or as many as positions are; `equilibrium`, refuse
    an operating point that accelerates. **Returns:** `LinearSystem`; its `residual` says how far
    from equilibrium the point is.
    **Cost:** that of `forward_dynamics_derivatives`; with loops O(nv³).
    **Source:** theory/sensitivities 5; theory/closed-chains 11.

    >>> import numpy as np
    >>> import phipsi as pp
    >>> rod = pp.examples.planar_arm(1)
    >>> down = pp.linearize(rod, [-np.pi / 2])           # a pendulum: ± i √(3 g / 2 l)
    >>> down.poles().round(4)
    array([0.-3.836j, 0.+3.836j])
    >>> up = pp.linearize(rod, [np.pi / 2], damping=[0.1])
    >>> up.is_stable, up.is_controllable()
    (False, True)
    """
    tree = tree_of(model, linearize)
    at_q = _vector("q", q, tree.nq)
    at_v = np.zeros(tree.nv) if v is None else _vector("v", v, tree.nv)
    driven = _driven(tree, inputs)
    loss = _losses(tree, damping)
    motion = Motion(model)
    motion.check_start(at_q[None], at_v[None], ("q", "v"))
    loops = None if motion.system is None else SmallMotions(motion.system, at_q, at_v)
    if loops is None and independent is not None:
        raise InputError("independent= is for a System; every joint of a tree is independent")
    basis = Basis.free(tree.nv) if loops is None else loops.basis(independent)
    effort = _efforts(tree, at_q, at_v, loss, driven, loops) if tau is None else None
    effort = _vector("tau", tau, tree.nv) if effort is None else effort
    acting = effort - loss * at_v
    vdot, by_q, by_v, by_tau = motion.linear(at_q, at_v, acting)
    if equilibrium and np.abs(vdot).max(initial=0.0) > 1e-6 * max(1.0, np.abs(acting).max()):
        raise InputError(_accelerates(tree, vdot))
    by_v = by_v - by_tau * loss
    turning = -motion.chart.bracket(at_v)
    kept_q, kept_v, Z_q, Z_v, P = basis.chosen_q, basis.chosen_v, basis.Z_q, basis.Z_v, basis.P
    n, size = len(kept_q), len(kept_q) + len(kept_v)
    A, B = np.zeros((size, size)), np.zeros((size, len(driven)))
    A[:n, :n], A[:n, n:] = (turning @ Z_q + P)[kept_q], Z_v[kept_q]
    A[n:, :n], A[n:, n:] = (by_q @ Z_q + by_v @ P)[kept_v], (by_v @ Z_v)[kept_v]
    B[n:] = by_tau[np.ix_(kept_v, driven)]
    rows, names = _outputs(tree, at_q, at_v, outputs)
    whole = np.block([[Z_q, np.zeros_like(Z_v)], [P, Z_v]])
    dofs = entry_names(tree, tree.v_slices)
    return LinearSystem(
        A=A,
        B=B,
        C=rows @ whole,
        D=np.zeros((len(rows), len(driven))),
        state_names=(*(f"q[{dofs[i]}]" for i in kept_q), *(f"v[{dofs[i]}]" for i in kept_v)),
        input_names=tuple(f"tau[{dofs[i]}]" for i in driven),
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


def _driven(model: Model, names: Sequence[str] | None) -> Array:
    """Which rates have an input."""
    if names is None:
        return np.arange(model.nv)
    listed = [names] if isinstance(names, str) else list(names)
    places = [np.arange(s.start, s.stop) for s in (_slice(model, name) for name in listed)]
    return np.concatenate([np.zeros(0, dtype=int), *places])


def _slice(model: Model, name: str) -> slice:
    if name not in model.joint_names:
        raise InputError(f"there is no joint {name!r}. {did_you_mean(name, model.joint_names)}")
    return model.v_slice(name)


def _losses(model: Model, damping: Any) -> Array:
    if isinstance(damping, (bool, np.bool_)):
        return np.array(model.damping) if damping else np.zeros(model.nv)
    return _vector("damping", damping, model.nv)


def _efforts(
    model: Model, q: Array, v: Array, loss: Array, driven: Array, loops: SmallMotions | None
) -> Array:
    """Efforts of the driven joints that leave the least acceleration."""
    needed = inverse_dynamics(model, q, v, np.zeros(model.nv)) + loss * v
    out = np.zeros(model.nv)
    out[driven] = needed[driven] if loops is None else loops.efforts(needed, driven)
    return out


def _accelerates(model: Model, vdot: Array) -> str:
    i = int(np.abs(vdot).argmax())
    name = entry_names(model, model.v_slices)[i]
    return (
        f"the operating point is no equilibrium: joint {name!r} accelerates by {vdot[i]:.4g} "
        "(rad/s² or m/s²). Give tau= that holds it, drive more joints (inputs=), or drop "
        "equilibrium=True to linearise about the motion."
    )


# ---- outputs -------------------------------------------------------------------------------------


def _outputs(model: Model, q: Array, v: Array, wanted: Any) -> tuple[Array, list[str]]:
    """Rows of C for x = [δq; δv] of all joints, and their names."""
    listed = [wanted] if isinstance(wanted, str) else list(wanted)
    nv = model.nv
    dofs = entry_names(model, model.v_slices)
    rows, names = [np.zeros((0, 2 * nv))], list[str]()
    for one in listed:
        found = _OUTPUT.match(one) if isinstance(one, str) else None
        if found:
            which, joint = found.groups()
            s = slice(0, nv) if joint is None else _slice(model, joint)
            eye = np.eye(2 * nv)[slice(s.start + (which == "v") * nv, s.stop + (which == "v") * nv)]
            rows.append(eye)
            names += [f"{which}[{dof}]" for dof in dofs[s]]
            continue
        if not (isinstance(one, tuple) and len(one) == 2 and one[0] in ("position", "velocity")):
            raise InputError(
                f"output {one!r} is not known; there are 'q', 'v', 'q[joint]', 'v[joint]', "
                "('position', point) and ('velocity', point)"
            )
        what, point = one
        place = jacobian(model, q, [point])[3:]
        row = np.zeros((3, 2 * nv))
        if what == "position":
            row[:, :nv] = place
        else:
            change = compile(diff(J @ rates, "q"), model, mode="dense", points=[point])
            row[:, :nv], row[:, nv:] = change(q, v)[3:], place
        rows.append(row)
        label = point if isinstance(point, str) else point[0]
        names += [f"{what}[{label}, {axis}]" for axis in "xyz"]
    return np.vstack(rows), names
