"""States in the conventions of other tools, and back: Pinocchio, MuJoCo, Drake.

    q_pin, v_pin, *_ = to_pinocchio(model, q, v)
    q, v, *_ = from_pinocchio(model, q_pin, v_pin)

Each function takes and returns (q, v, vdot, tau), of which all but q may be left out. Rates of the
other tool are T(q) v with an orthogonal T, so accelerations are T vdot + Ṫ v and efforts T tau: the
power tau · v is the same number on both sides. None of the other tools is imported.

Free joint, here: q = [quaternion w x y z, position], v = [angular, linear] in body axes.

    Pinocchio  q = [position, quaternion x y z w],  v = [linear, angular] in body axes
    MuJoCo     q = [position, quaternion] in the world,  v = [linear in world, angular in body axes]
    Drake      q = [quaternion, position] in the world,  v = [angular, linear] in world axes

Planar joint, here: q = [θ, x, y], v in body axes. Pinocchio: [x, y, cos θ, sin θ], v in body axes.
MuJoCo and Drake: [x, y, θ], v = q̇. Continuous joint: an angle, in Pinocchio (cos, sin).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from numpy.typing import ArrayLike

from phipsi.interfaces.convention_adapter import Adapter, State
from phipsi.interfaces.convention_blocks import DRAKE, MUJOCO, PINOCCHIO
from phipsi.model.mechanisms import of_given_motion, tree_of
from phipsi.model.model import Model


@of_given_motion
def to_pinocchio(
    model: Model,
    q: ArrayLike,
    v: ArrayLike | None = None,
    vdot: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    continuous: Collection[str] | None = None,
) -> State:
    """A state as Pinocchio writes it.

    **Arguments:** `q` (..., nq), `v`, `vdot`, `tau` (..., nv); `names`, the joints in Pinocchio's
    order, as in ``pin_model.names[1:]``; by default the order in which it reads the model's URDF
    file (depth first, siblings by the names of their joints), or ours if there was none;
    `continuous`, the joints it stores as (cos, sin), by default those the file calls continuous.
    """
    return Adapter(tree_of(model, to_pinocchio), PINOCCHIO, names, continuous).out(
        State(q, v, vdot, tau)
    )


@of_given_motion
def from_pinocchio(
    model: Model,
    q: ArrayLike,
    v: ArrayLike | None = None,
    vdot: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    continuous: Collection[str] | None = None,
) -> State:
    """Inverse of `to_pinocchio`; angles stored as (cos, sin) come back in (−π, π]."""
    return Adapter(tree_of(model, from_pinocchio), PINOCCHIO, names, continuous).back(
        State(q, v, vdot, tau)
    )


@of_given_motion
def to_mujoco(
    model: Model,
    q: ArrayLike,
    v: ArrayLike | None = None,
    vdot: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
) -> State:
    """A state as MuJoCo writes it: qpos, qvel, qacc and efforts such as qfrc_applied.

    `names` are our joints in MuJoCo's order, by default the order of the tree, which is that of a
    MuJoCo model of the same file. A planar joint is two slides and a hinge.
    """
    tree = tree_of(model, to_mujoco)
    return Adapter(tree, MUJOCO, names).out(State(q, v, vdot, tau))


@of_given_motion
def from_mujoco(
    model: Model,
    q: ArrayLike,
    v: ArrayLike | None = None,
    vdot: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
) -> State:
    """Inverse of `to_mujoco`."""
    tree = tree_of(model, from_mujoco)
    return Adapter(tree, MUJOCO, names).back(State(q, v, vdot, tau))


@of_given_motion
def to_drake(
    model: Model,
    q: ArrayLike,
    v: ArrayLike | None = None,
    vdot: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
) -> State:
    """A state as Drake's MultibodyPlant writes it; `names` are the joints in its order.

    Drake orders by its own rules: take the names from ``plant.joint(i)`` sorted by
    ``position_start()``.
    """
    tree = tree_of(model, to_drake)
    return Adapter(tree, DRAKE, names).out(State(q, v, vdot, tau))


@of_given_motion
def from_drake(
    model: Model,
    q: ArrayLike,
    v: ArrayLike | None = None,
    vdot: ArrayLike | None = None,
    tau: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
) -> State:
    """Inverse of `to_drake`."""
    tree = tree_of(model, from_drake)
    return Adapter(tree, DRAKE, names).back(State(q, v, vdot, tau))
