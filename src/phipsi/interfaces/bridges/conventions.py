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

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.backends.arguments import real_array
from phipsi.errors import InputError, did_you_mean
from phipsi.interfaces.bridges.joint_blocks import DRAKE, MUJOCO, PINOCCHIO, Block, Style
from phipsi.model import Model, joints
from phipsi.model.mechanisms import of_given_motion, tree_of
from phipsi.model.model import JointView

__all__ = [
    "State", "from_drake", "from_mujoco", "from_pinocchio", "to_drake", "to_mujoco", "to_pinocchio",
]  # fmt: skip


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


# ---- one model in the convention of one tool -----------------------------------------------------

Array = NDArray[Any]
_RATES = ("v", "vdot", "tau")


class State(NamedTuple):
    """Coordinates, rates, accelerations and efforts; None for what was not given."""

    q: Any
    v: Any = None
    vdot: Any = None
    tau: Any = None


def pinocchio_order(model: Model) -> list[str]:
    """Names of the moving joints in the order in which Pinocchio reads the model's URDF file.

    Depth first, siblings by the names of their joints, fixed ones included; the order of the tree
    for a model that is from no file.
    """
    parts = model.description.parts
    if not parts:
        return list(model.joint_names)
    children: dict[str, list[Any]] = {}
    for part in parts:
        children.setdefault(part.parent, []).append(part)
    order: list[str] = []
    stack = sorted(children.get("world", ()), key=lambda part: part.joint_name, reverse=True)
    while stack:
        part = stack.pop()
        order.append(part.joint_name)
        stack.extend(
            sorted(children.get(part.name, ()), key=lambda part: part.joint_name, reverse=True)
        )
    moving = set(model.joint_names)
    return [name for name in order if name in moving]


@final
class Adapter:
    """Turns states into the other tool's (`out`) and back; a block per joint, in its order."""

    def __init__(
        self,
        model: Model,
        style: Style,
        names: Sequence[str] | None,
        continuous: Collection[str] | None = None,
    ) -> None:
        self.model = model
        if names is None:
            names = pinocchio_order(model) if style is PINOCCHIO else model.joint_names
        _check_names(names, model)
        if continuous is None:
            continuous = [r.joint for r in model.ratings.values() if r.source_type == "continuous"]
        self.blocks: list[tuple[slice, slice, Block]] = []
        for name in names:
            view = model.joint(name)
            i = view.index
            if style is PINOCCHIO:
                _refuse_turned_plane(model, view)
            angle = style.wraps and name in continuous and isinstance(view.joint, joints.Revolute)
            block = style.block(
                view.joint, name, model.placements[i], model.parent[i] < 0, bool(angle)
            )
            self.blocks.append((view.q_slice, view.v_slice, block))
        self.nq = sum(block.nq for _, _, block in self.blocks)

    def out(self, state: State) -> State:
        """Ours to theirs: rates T v, accelerations T vdot + Ṫ v, efforts T tau."""
        ours = _checked(state, self.model.nq, self.model.nv)
        theirs = _empty(ours, self.nq, self.model.nv)
        for (at, rates, block), (at_there, rates_there) in self._places():
            q = ours.q[..., at]
            theirs.q[..., at_there] = block.q_out(q)
            T = block.T(q)
            for name, x, y in _given(ours, theirs):
                part = _apply(T, x[..., rates])
                if name == "vdot":
                    part = part + block.drift(q, ours.v[..., rates])
                y[..., rates_there] = part
        return theirs

    def back(self, state: State) -> State:
        """Theirs to ours: the inverse of T is its transpose."""
        theirs = _checked(state, self.nq, self.model.nv)
        ours = _empty(theirs, self.model.nq, self.model.nv)
        for (at, rates, block), (at_there, rates_there) in self._places():
            q = ours.q[..., at] = block.q_in(theirs.q[..., at_there])
            T = block.T(q)
            inverse = None if T is None else np.swapaxes(T, -1, -2)
            for name, x, y in _given(theirs, ours):
                part = x[..., rates_there]
                if name == "vdot":
                    part = part - block.drift(q, ours.v[..., rates])
                y[..., rates] = _apply(inverse, part)
        return ours

    def _places(self) -> Iterator[tuple[tuple[slice, slice, Block], tuple[slice, slice]]]:
        """Every block with where its coordinates and rates are in the other tool's arrays."""
        q = v = 0
        for place in self.blocks:
            block = place[2]
            yield place, (slice(q, q + block.nq), slice(v, v + block.nv))
            q, v = q + block.nq, v + block.nv


def _refuse_turned_plane(model: Model, view: JointView) -> None:
    """Pinocchio ignores the axis of a planar joint of a URDF file."""
    rating = model.ratings.get(view.name)
    from_file = rating is not None and rating.source_type == "planar"
    if from_file and view.joint.kind == "planar" and view.joint != joints.Planar():
        raise InputError(
            f"joint {view.name!r} (planar): Pinocchio reads it as motion in the xy plane of the "
            f"joint's frame, whatever the <axis> of the file says, so its model moves differently "
            f"from this one and no state has a counterpart there. Turn the joint's <origin> so "
            f'that the axis is z, and write  <axis xyz="0 0 1"/>'
        )


def _check_names(names: Sequence[str], model: Model) -> None:
    if sorted(names) == sorted(model.joint_names):
        return
    for name in names:
        if name not in model.joint_names:
            hint = did_you_mean(name, model.joint_names)
            raise InputError(f"names: the model has no joint {name!r}. {hint}")
    missing = set(model.joint_names) - set(names)
    raise InputError(f"names must list every joint once; missing: {sorted(missing)[:5]}.")


def _checked(state: State, nq: int, nv: int) -> State:
    """The same as arrays of the right sizes."""
    rates = (None if x is None else _sized(x, nv, name) for name, x in _rates(state))
    checked = State(_sized(state.q, nq, "q"), *rates)
    if checked.vdot is not None and checked.v is None:
        raise InputError(
            "vdot needs v as well: axes that turn add velocity terms to accelerations."
        )
    return checked


def _empty(like: State, nq: int, nv: int) -> State:
    """Arrays to fill: rates have the batch of q and their own, for T depends on q."""
    batch = like.q.shape[:-1]
    v_batch = batch if like.v is None else np.broadcast_shapes(batch, like.v.shape[:-1])
    rates: list[Array | None] = []
    for name, x in _rates(like):
        shape = v_batch if name == "vdot" else batch
        rates.append(
            None if x is None else np.empty((*np.broadcast_shapes(shape, x.shape[:-1]), nv))
        )
    return State(np.empty((*batch, nq)), *rates)


def _rates(state: State) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(state, name)) for name in _RATES)


def _given(source: State, target: State) -> Iterator[tuple[str, Array, Array]]:
    """What is not None, v first."""
    for name, x in _rates(source):
        if x is not None:
            yield name, x, getattr(target, name)


def _apply(T: Array | None, x: Array) -> Array:
    return x if T is None else np.einsum("...ij,...j->...i", T, x)


def _sized(values: ArrayLike, size: int, what: str) -> Array:
    array = real_array(what, values)
    if array.ndim == 0 or array.shape[-1] != size:
        raise InputError(f"{what} has shape {array.shape}, but its last axis must be {size}.")
    return array
