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

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.backends import real_array
from phipsi.core.model import UNAFFECTED, JointView, Model, joints, supports, tree_of
from phipsi.errors import InputError, did_you_mean
from phipsi.files.joint_conventions import DRAKE, MUJOCO, PINOCCHIO, JointBlock, Style, applied
from phipsi.package_state import only_public

__all__ = [
    "State", "from_drake", "from_mujoco", "from_pinocchio", "to_drake", "to_mujoco", "to_pinocchio",
]  # fmt: skip
__dir__ = only_public(__name__)

Array = NDArray[Any]
_RATES = ("v", "vdot", "tau")


class State(NamedTuple):
    """A state: coordinates, velocities, accelerations, and joint torques and forces.

    Parameters
    ----------
    q : ndarray
        Coordinates.
    v : ndarray or None
        Velocities; None if not given.
    vdot : ndarray or None
        Accelerations; None if not given.
    tau : ndarray or None
        Joint torques and forces; None if not given.
    """

    q: Any
    v: Any = None
    vdot: Any = None
    tau: Any = None


# ---- how one joint is written by other tools -----------------------------------------------------


# ---- one model in the convention of one tool -----------------------------------------------------


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
        if continuous is not None and not style.wraps:
            raise InputError(f"continuous= is for Pinocchio; {style.tool} stores angles as such.")
        if continuous is None:
            continuous = [
                r.joint for r in model.joint_properties.values() if r.source_type == "continuous"
            ]
        self.blocks: list[tuple[slice, slice, JointBlock]] = []
        for name in names:
            view = model.joint(name)
            i = view.index
            if style is PINOCCHIO:
                _reject_turned_plane(model, view)
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
                part = applied(T, x[..., rates])
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
                y[..., rates] = applied(inverse, part)
        return ours

    def _places(self) -> Iterator[tuple[tuple[slice, slice, JointBlock], tuple[slice, slice]]]:
        """Every block with where its coordinates and rates are in the other tool's arrays."""
        q = v = 0
        for place in self.blocks:
            block = place[2]
            yield place, (slice(q, q + block.nq), slice(v, v + block.nv))
            q, v = q + block.nq, v + block.nv


def _reject_turned_plane(model: Model, view: JointView) -> None:
    """Pinocchio ignores the axis of a planar joint of a URDF file."""
    properties = model.joint_properties.get(view.name)
    from_file = properties is not None and properties.source_type == "planar"
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


def _sized(values: ArrayLike, size: int, what: str) -> Array:
    array = real_array(what, values)
    if array.ndim == 0 or array.shape[-1] != size:
        raise InputError(f"{what} has shape {array.shape}, but its last axis must be {size}.")
    return array


# ---- the functions -------------------------------------------------------------------------------


def _converts(style: Style, *, back: bool = False):
    """Decorate the description of a function that writes states as a tool does, or reads them."""

    def make(described: Callable[[], None]):
        def convert(
            model: Model,
            q: ArrayLike,
            v: ArrayLike | None = None,
            vdot: ArrayLike | None = None,
            tau: ArrayLike | None = None,
            *,
            names: Sequence[str] | None = None,
            continuous: Collection[str] | None = None,
        ) -> State:
            adapter = Adapter(tree_of(model, convert), style, names, continuous)
            return (adapter.back if back else adapter.out)(State(q, v, vdot, tau))

        convert.__name__ = convert.__qualname__ = described.__name__
        convert.__doc__ = described.__doc__
        return supports(loops=UNAFFECTED, contacts=UNAFFECTED, rotors=True)(convert)

    return make


@_converts(PINOCCHIO)
def to_pinocchio() -> None:
    """A state of this library as Pinocchio writes it.

    Parameters
    ----------
    model : Model
        The model.
    q : array_like, shape (..., nq)
        Coordinates.
    v, vdot, tau : array_like, shape (..., nv), optional
        Velocities, accelerations, and joint torques and forces. Default: none.
    names : sequence of str, optional
        The joints in Pinocchio's order, as in ``pin_model.names[1:]``. Default: the order in which
        it reads the model's URDF file (depth first, siblings by the names of their joints), or that
        of the model if it is not from a file.
    continuous : collection of str, optional
        The joints it stores as (cos, sin). Default: those of the file's type "continuous".

    Returns
    -------
    State
        Arrays (q, v, vdot, tau) in Pinocchio's convention.

    Examples
    --------
    >>> import phipsi as pp
    >>> robot = pp.examples.free_flyer()
    >>> q = robot.neutral()                          # [w, x, y, z, position]
    >>> pp.conventions.to_pinocchio(robot, q).q[:7]  # [position, x, y, z, w]
    array([0., 0., 0., 0., 0., 0., 1.])
    """


@_converts(PINOCCHIO, back=True)
def from_pinocchio() -> None:
    """A state of Pinocchio as this library writes it, the inverse of `to_pinocchio`.

    Angles stored as (cos, sin) come back in (−π, π].

    Parameters
    ----------
    model : Model
        The model.
    q : array_like
        Coordinates of the other tool.
    v, vdot, tau : array_like, optional
        Velocities, accelerations, and joint torques and forces of the other tool. Default: none.
    names, continuous : optional
        As for `to_pinocchio`.

    Returns
    -------
    State
        Arrays (q, v, vdot, tau) of this library.

    Examples
    --------
    >>> import phipsi as pp
    >>> robot = pp.examples.free_flyer()
    >>> there = pp.conventions.to_pinocchio(robot, robot.neutral())
    >>> bool((pp.conventions.from_pinocchio(robot, there.q).q == robot.neutral()).all())
    True
    """


@_converts(MUJOCO)
def to_mujoco() -> None:
    """A state as MuJoCo writes it: qpos, qvel, qacc and torques such as qfrc_applied.

    A planar joint is two slides and a hinge.

    Parameters
    ----------
    model : Model
        The model.
    q : array_like, shape (..., nq)
        Coordinates.
    v, vdot, tau : array_like, shape (..., nv), optional
        Velocities, accelerations, and joint torques and forces. Default: none.
    names : sequence of str, optional
        The joints of this model in MuJoCo's order. Default: the order of the tree, which is that of
        a MuJoCo model of the same file.
    continuous : None
        Only for Pinocchio.

    Returns
    -------
    State
        Arrays (q, v, vdot, tau) in MuJoCo's convention.

    Examples
    --------
    >>> import phipsi as pp
    >>> robot = pp.examples.free_flyer()
    >>> pp.conventions.to_mujoco(robot, robot.neutral()).q[:7]  # [position, w, x, y, z]
    array([0., 0., 0., 1., 0., 0., 0.])
    """


@_converts(MUJOCO, back=True)
def from_mujoco() -> None:
    """A state of MuJoCo as this library writes it, the inverse of `to_mujoco`.

    Parameters
    ----------
    model : Model
        The model.
    q : array_like
        Coordinates of the other tool.
    v, vdot, tau : array_like, optional
        Velocities, accelerations, and joint torques and forces of the other tool. Default: none.
    names, continuous : optional
        As for `to_mujoco`.

    Returns
    -------
    State
        Arrays (q, v, vdot, tau) of this library.

    Examples
    --------
    >>> import phipsi as pp
    >>> robot = pp.examples.free_flyer()
    >>> pp.conventions.from_mujoco(robot, [0, 0, 2, 1, 0, 0, 0, *[0] * (robot.nq - 7)]).q[:7]
    array([1., 0., 0., 0., 0., 0., 2.])
    """


@_converts(DRAKE)
def to_drake() -> None:
    """A state as Drake's MultibodyPlant writes it.

    Parameters
    ----------
    model : Model
        The model.
    q : array_like, shape (..., nq)
        Coordinates.
    v, vdot, tau : array_like, shape (..., nv), optional
        Velocities, accelerations, and joint torques and forces. Default: none.
    names : sequence of str, optional
        The joints in Drake's order, which follows rules of its own: take them from
        ``plant.joint(i)`` sorted by ``position_start()``. Default: the order of the tree.
    continuous : None
        Only for Pinocchio.

    Returns
    -------
    State
        Arrays (q, v, vdot, tau) in Drake's convention.

    Examples
    --------
    >>> import phipsi as pp
    >>> robot = pp.examples.free_flyer()
    >>> pp.conventions.to_drake(robot, robot.neutral()).q[:7]   # [w, x, y, z, position]
    array([1., 0., 0., 0., 0., 0., 0.])
    """


@_converts(DRAKE, back=True)
def from_drake() -> None:
    """A state of Drake as this library writes it, the inverse of `to_drake`.

    Parameters
    ----------
    model : Model
        The model.
    q : array_like
        Coordinates of the other tool.
    v, vdot, tau : array_like, optional
        Velocities, accelerations, and joint torques and forces of the other tool. Default: none.
    names, continuous : optional
        As for `to_drake`.

    Returns
    -------
    State
        Arrays (q, v, vdot, tau) of this library.

    Examples
    --------
    >>> import phipsi as pp
    >>> robot = pp.examples.free_flyer()
    >>> pp.conventions.from_drake(robot, robot.neutral()).q[:7]
    array([1., 0., 0., 0., 0., 0., 0.])
    """
