"""States in the conventions of other tools, and back: Pinocchio, MuJoCo, Drake.

    q_pin, v_pin, *_ = to_pinocchio(model, q, v)
    q, v, *_ = from_pinocchio(model, q_pin, v_pin)

Each function takes and returns (q, v, vdot, tau), of which all but q may be left out. Rates of the
other tool are T(q) v with an orthogonal T, so accelerations are T vdot + Ṫ v and efforts T tau: the
power tau · v is the same number on both sides. None of the other tools is imported.

Free joint, here: q = [quaternion w x y z, position], v = [angular, linear] in body axes.

    Pinocchio  q = [position, quaternion x y z w],  v = [linear, angular] in body axes
    MuJoCo     q = [position, quaternion] in the world,  v = [linear in world, angular in body axes]
    Drake      q = [quaternion, position],  v = [angular, linear] in inboard axes

Planar joint, here: q = [θ, x, y], v in body axes. Pinocchio: [x, y, cos θ, sin θ], v in body axes.
MuJoCo and Drake: [x, y, θ], v = q̇. Continuous joint: an angle, in Pinocchio (cos, sin).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.errors import InputError, did_you_mean
from phipsi.interfaces.convention_blocks import DRAKE, MUJOCO, PINOCCHIO, Block, Style
from phipsi.model import Model, joints

Array = NDArray[Any]


class State(NamedTuple):
    """Coordinates, rates, accelerations and efforts; None for what was not given."""

    q: Array
    v: Array | None = None
    vdot: Array | None = None
    tau: Array | None = None


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
    return _Adapter(model, PINOCCHIO, names, continuous).out(q, v, vdot, tau)


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
    return _Adapter(model, PINOCCHIO, names, continuous).back(q, v, vdot, tau)


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
    return _Adapter(model, MUJOCO, names).out(q, v, vdot, tau)


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
    return _Adapter(model, MUJOCO, names).back(q, v, vdot, tau)


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
    return _Adapter(model, DRAKE, names).out(q, v, vdot, tau)


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
    return _Adapter(model, DRAKE, names).back(q, v, vdot, tau)


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


class _Adapter:
    """One model in one style: a block per joint, in the other tool's order."""

    def __init__(
        self,
        model: Model,
        style: Style,
        names: Sequence[str] | None,
        continuous: Collection[str] | None = None,
    ) -> None:
        self.model, self.style = model, style
        if names is None:
            names = pinocchio_order(model) if style is PINOCCHIO else model.joint_names
        if sorted(names) != sorted(model.joint_names):
            for name in names:
                if name not in model.joint_names:
                    hint = did_you_mean(name, model.joint_names)
                    raise InputError(f"names: the model has no joint {name!r}. {hint}")
            missing = set(model.joint_names) - set(names)
            raise InputError(f"names must list every joint once; missing: {sorted(missing)[:5]}.")
        if continuous is None:
            continuous = [r.joint for r in model.ratings.values() if r.source_type == "continuous"]
        self.blocks: list[tuple[slice, slice, Block]] = []
        for name in names:
            view = model.joint(name)
            i = view.index
            angle = style.wraps and name in continuous and isinstance(view.joint, joints.Revolute)
            block = style.block(
                view.joint, name, model.placements[i], model.parent[i] < 0, bool(angle)
            )
            self.blocks.append((view.q_slice, view.v_slice, block))
        self.nq = sum(block.nq for _, _, block in self.blocks)

    def out(
        self,
        q: ArrayLike,
        v: ArrayLike | None,
        vdot: ArrayLike | None,
        tau: ArrayLike | None,
    ) -> State:
        q = _sized(q, self.model.nq, "q")
        ours = {
            name: None if x is None else _sized(x, self.model.nv, name)
            for name, x in (("v", v), ("vdot", vdot), ("tau", tau))
        }
        _needs_v(ours["v"], ours["vdot"])
        pieces: dict[str, list[Array]] = {"q": [], "v": [], "vdot": [], "tau": []}
        for at, rates, block in self.blocks:
            mine = q[..., at]
            pieces["q"].append(block.q_out(mine))
            T = block.T(mine)
            for name, x in ours.items():
                if x is None:
                    continue
                part = _apply(T, x[..., rates])
                if name == "vdot" and ours["v"] is not None:
                    part = part + block.drift(mine, ours["v"][..., rates])
                pieces[name].append(part)
        return _joined(pieces, q, ours)

    def back(
        self,
        q: ArrayLike,
        v: ArrayLike | None,
        vdot: ArrayLike | None,
        tau: ArrayLike | None,
    ) -> State:
        q = _sized(q, self.nq, "q")
        theirs = {
            name: None if x is None else _sized(x, self.model.nv, name)
            for name, x in (("v", v), ("vdot", vdot), ("tau", tau))
        }
        _needs_v(theirs["v"], theirs["vdot"])
        out_q = np.empty((*q.shape[:-1], self.model.nq))
        out: dict[str, Any] = {
            name: None if x is None else np.empty((*_batch(q, x), self.model.nv))
            for name, x in theirs.items()
        }
        at_q = at_v = 0
        for where, rates, block in self.blocks:
            mine = block.q_in(q[..., at_q : at_q + block.nq])
            out_q[..., where] = mine
            T = block.T(mine)
            for name in ("v", "vdot", "tau"):
                x = theirs[name]
                if x is None:
                    continue
                part = x[..., at_v : at_v + block.nv]
                if name == "vdot":
                    part = part - block.drift(mine, out["v"][..., rates])
                out[name][..., rates] = _apply(None if T is None else np.swapaxes(T, -1, -2), part)
            at_q += block.nq
            at_v += block.nv
        return State(out_q, **out)


def _apply(T: Array | None, x: Array) -> Array:
    return x if T is None else np.einsum("...ij,...j->...i", T, x)


def _sized(values: ArrayLike, size: int, what: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != size:
        raise InputError(f"{what} has shape {array.shape}, but its last axis must be {size}.")
    return array


def _needs_v(v: Array | None, vdot: Array | None) -> None:
    if vdot is not None and v is None:
        raise InputError(
            "vdot needs v as well: axes that turn add velocity terms to accelerations."
        )


def _batch(*arrays: Array) -> tuple[int, ...]:
    return np.broadcast_shapes(*(array.shape[:-1] for array in arrays))


def _joined(pieces: dict[str, list[Array]], q: Array, ours: dict[str, Any]) -> State:
    def join(name: str) -> Array | None:
        x = q if name == "q" else ours[name]
        if x is None:
            return None
        shape = q.shape[:-1] if name == "q" else _batch(q, x)
        parts = [np.broadcast_to(p, (*shape, p.shape[-1])) for p in pieces[name]]
        return np.concatenate([np.zeros((*shape, 0)), *parts], axis=-1)

    joined = join("q")
    assert joined is not None
    return State(joined, join("v"), join("vdot"), join("tau"))
