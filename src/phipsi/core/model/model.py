"""Model: a mechanism, frozen. "Changing" it returns a new one.

A tree is a mechanism without constraints: every model has `constraints` and `closures`, and those
of a tree are empty. `System`, the model with constraints, is defined where they can be solved.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.model import edit, serialize
from phipsi.core.model.argument_checks import as_list, whole_number
from phipsi.core.model.attached_data import AttachedData
from phipsi.core.model.attachments import Kind
from phipsi.core.model.body import Body, Description
from phipsi.core.model.changed_models import ChangedModels
from phipsi.core.model.closures import NO_CLOSURES, ClosureSet
from phipsi.core.model.compound_body import CompoundBody
from phipsi.core.model.flexible_hinge import hinge_limits, hinges_of, rates_of_rows
from phipsi.core.model.flexible_inertia import FlexibleInertia
from phipsi.core.model.foreign_attribute_hints import ForeignAttributeHints
from phipsi.core.model.fork_safe_lock import ForkSafeLock
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joint import Joint
from phipsi.core.model.layout import LAYOUT, JointView, Layout, per_rate
from phipsi.core.model.names import Names, Point
from phipsi.core.model.pose import Pose
from phipsi.core.model.rate_rows import RateRows
from phipsi.core.model.tree import WORLD, WORLD_NAME, Tree
from phipsi.core.model.validate import InertiaPolicy, validate
from phipsi.core.model.value import Value, read_only
from phipsi.core.model.weld_fixed_joints import assemble, parent_indices
from phipsi.errors import InputError, ModelError
from phipsi.package_state import display, public

FloatArray = NDArray[np.float64]
Result = TypeVar("Result")
_BUILDING = ForkSafeLock()


class Model(AttachedData, ChangedModels, ForeignAttributeHints, Value):
    """A tree of bodies, each attached to its parent by a joint: a mechanism without closed loops.

    Built by `ModelBuilder.build`, `pp.load` or `Model.from_dict`. Bodies are stored base-to-tip,
    depth first; body i has the inboard joint i. Bodies on fixed joints are not counted; their names
    are frames. All arrays are read-only, and two models with the same content are equal.

    A model from a file also has its `name`, `couplings`, `joint_properties`, `geometry` and
    `diagnosis`. `rotors` behind gears are part of `inertia_matrices` and `armature`, not of
    `inertias`, or they are the `rate_rows` of a joint. `constraints` and `closures`, their resolved
    rows, are empty here and filled in a `System`; `model` is the same mechanism without them.

    Parameters
    ----------
    description : Description
        The bodies, joints and frames; `ModelBuilder` makes it.

    Attributes
    ----------
    n_bodies, nq, nv : int
        Numbers of bodies, coordinates and velocities.
    body_names, joint_names : tuple of str
        Names in the order of the bodies.
    parent : ndarray, shape (n,)
        The parent of each body, −1 for the world; `tree` has more.
    gravity : ndarray, shape (3,)
        m/s², world axes.
    joints : tuple of Joint
        One per body.
    placements : tuple of Pose
        Pose of each inboard joint frame in the parent's body frame; also as arrays
        `placement_rotations` (n, 3, 3) and `placement_translations` (n, 3).
    inertias : tuple of SpatialInertia
        Also as `inertia_matrices` (n, 6, 6) about the body origins in body axes.
    armature, damping : ndarray, shape (nv,)
        Of the joints; 0 at modal coordinates. `has_armature` says whether there is any.
    lower, upper : ndarray, shape (nq,)
        Limits of q, ∓inf for none.
    q_slices, v_slices : tuple of slice
        The entries of each joint in q and v. Modal coordinates and velocities of a body follow
        those of its joint.
    frames : mapping of str to (int, Pose)
        Body index (−1 for the world) of each frame, and its pose in that body.
    flexible : tuple
        The `FlexibleInertia` of every body, or None; `modes` has their numbers of modes, and
        `is_flexible` says whether there are any.
    more_rows : tuple of int
        Rows of each body beyond six, for modes or rotors; `has_more_rows` says whether there are
        any.
    """

    __slots__ = (
        "description", "tree", "body_names", "joint_names", "joints", "placements", "inertias",
        "gravity", "placement_rotations", "placement_translations", "inertia_matrices",
        "armature", "damping", "frames", "nq", "nv", "q_slices", "v_slices", "lower", "upper",
        "parent", "modes", "flexible", "is_flexible", "more_rows", "has_more_rows", "_layout",
        "_names", "_hash", "cache", "__weakref__",
    )  # fmt: skip
    description: Description
    tree: Tree
    body_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    joints: tuple[Joint, ...]
    placements: tuple[Pose, ...]
    inertias: tuple[SpatialInertia, ...]
    gravity: FloatArray
    placement_rotations: FloatArray
    placement_translations: FloatArray
    inertia_matrices: FloatArray
    armature: FloatArray
    damping: FloatArray
    frames: Mapping[str, tuple[int, Pose]]
    nq: int
    nv: int
    q_slices: tuple[slice, ...]
    v_slices: tuple[slice, ...]
    lower: FloatArray
    upper: FloatArray
    parent: tuple[int, ...]
    modes: tuple[int, ...]
    flexible: tuple[FlexibleInertia | CompoundBody | None, ...]
    is_flexible: bool
    more_rows: tuple[int, ...]
    has_more_rows: bool
    _layout: Layout
    _names: Names
    _hash: int
    # Filled by `cached`, and read directly only where a warm call must be short.
    cache: dict[Hashable, Any]
    constraints: tuple[Any, ...] = ()
    closures: ClosureSet = NO_CLOSURES
    n_rows: int = 0
    """Number of constraint rows."""
    contact_pairs: Any = None
    """Which shapes may touch: the `Contacts` of a system that has them."""

    def __init__(self, description: Description) -> None:
        bodies = description.bodies
        n = len(bodies)
        body_names = tuple(body.name for body in bodies)
        joint_names = tuple(body.joint_name for body in bodies)
        body_index = {name: i for i, name in enumerate(body_names)}
        tree = Tree(parent_indices(bodies))
        flexible = tuple(body.flexible for body in bodies)
        modes = tuple(0 if x is None else x.modes for x in flexible)
        rotations = [body.placement.rotation for body in bodies]
        translations = [body.placement.translation for body in bodies]
        matrices = np.reshape([body.inertia.matrix for body in bodies], (n, 6, 6))
        armature = np.array(per_rate([body.armature for body in bodies], modes))
        coupled: dict[int, RateRows] = {}
        for x in description.attachments:
            coupled |= x.add_inertia(description, matrices, armature)
        joints = hinges_of(bodies, tree.parent, coupled)
        rows = tuple(len(rates_of_rows(joint)) for joint in joints)
        frames = MappingProxyType(
            {
                frame.name: (body_index.get(frame.body, WORLD), frame.placement)
                for frame in description.frames
            }
        )
        layout = Layout(joints, joint_names, [hinge_limits(body) for body in bodies])
        self._set(**{name: getattr(layout, name) for name in LAYOUT})
        self._set(
            description=description,
            tree=tree,
            parent=tree.parent,
            body_names=body_names,
            joint_names=joint_names,
            joints=joints,
            placements=tuple(body.placement for body in bodies),
            inertias=tuple(body.inertia for body in bodies),
            gravity=read_only(description.gravity),
            placement_rotations=read_only(np.reshape(rotations, (n, 3, 3))),
            placement_translations=read_only(np.reshape(translations, (n, 3))),
            inertia_matrices=read_only(matrices),
            armature=read_only(armature),
            damping=read_only(per_rate([body.damping for body in bodies], modes)),
            frames=frames,
            modes=modes,
            flexible=flexible,
            is_flexible=any(modes),
            more_rows=rows,
            has_more_rows=any(rows),
            _layout=layout,
            _names=Names(
                body_names,
                joint_names,
                frames,
                {
                    name: tuple(port.name for port in body.ports)
                    for name, body, m in zip(body_names, flexible, modes, strict=True)
                    if m and body is not None
                },
            ),
            _hash=hash(description),
            cache={},
        )

    # -------------------------------------------------------------- sizes and look-up

    @property
    def model(self) -> Model:
        """The tree of the mechanism, without constraints: of a tree the model itself."""
        return self

    @property
    def row_names(self) -> tuple[str, ...]:
        """Name of every constraint row: the constraint and the quantity measured."""
        return self.closures.row_names

    @property
    def n_bodies(self) -> int:
        """Number of bodies that can move (welded ones are not counted)."""
        return len(self.body_names)

    @property
    def has_armature(self) -> bool:
        """Whether some joint has rotor inertia."""
        return bool(self.armature.any())

    def of(self, kind: type[Kind]) -> Kind:
        """The attachment of a kind, such as a class of your own; an empty one if there is none."""
        return self.description.of(kind)

    def cached(self, key: Hashable, build: Callable[[], Result]) -> Result:
        """The object built for this model under a key: a program, a table, a part of it.

        Programs refer to their model, so they are kept here, where the two are freed together.
        Threads that want the same entry wait for one of them.

        Parameters
        ----------
        key : hashable
            An expression with how it is compiled, or the function or class that owns the entry,
            alone or first in a tuple.
        build : callable
            Builds the object if there is none.

        Returns
        -------
        object
            The cached object.
        """
        if key not in self.cache:
            with _BUILDING.lock:
                if key not in self.cache:
                    self.cache[key] = build()
        return self.cache[key]

    def body_index(self, name: str) -> int:
        """Return the number of a body in storage order."""
        return self._names.body_index(name)

    def joint_index(self, name: str) -> int:
        """Return the number of a joint, equal to the number of the body outboard of it."""
        return self._names.joint_index(name)

    def q_slice(self, joint: str) -> slice:
        """Where a joint's coordinates are in q."""
        return self.q_slices[self.joint_index(joint)]

    def v_slice(self, joint: str) -> slice:
        """Where a joint's rates are in v."""
        return self.v_slices[self.joint_index(joint)]

    def joint_rates(self, joint: str) -> slice:
        """Where a joint's own rates are in v, without those of the modes of its body."""
        k = self.joint_index(joint)
        at = self.v_slices[k]
        return slice(at.start, at.stop - self.modes[k])

    def joint_coordinates(self, joint: str) -> slice:
        """Where a joint's own coordinates are in q, without those of the modes of its body."""
        k = self.joint_index(joint)
        at = self.q_slices[k]
        return slice(at.start, at.stop - getattr(self.joints[k], "places", 0))

    def body(self, name: str) -> Body:
        """Return the record of a body: parent, joint, placement, inertia, …."""
        return self.description.bodies[self.body_index(name)]

    def joint(self, name: str) -> JointView:
        """Return a joint with its place in q and v and its data."""
        i = self.joint_index(name)
        body = self.description.bodies[i]
        return JointView(
            name,
            i,
            body.name,
            body.joint,
            self.q_slices[i],
            self.v_slices[i],
            body.armature,
            body.damping,
            body.limits,
        )

    def resolve_point(self, point: Point) -> tuple[int, Pose]:
        """Body a point is on, and the pose there of the frame whose origin is the point.

        Parameters
        ----------
        point : str or tuple
            The name of a body, a frame or "world", or (name, offset) with the offset in m from that
            origin, in those axes.

        Returns
        -------
        tuple of (int, Pose)
            (body index or −1, X) where X has the axes of the named body or frame and its origin at
            the point.
        """
        return self._names.resolve_point(point)

    # -------------------------------------------------------------- configurations

    def neutral(self) -> FloatArray:
        """Return q (nq,) at which every body frame coincides with its joint frame."""
        return self._layout.neutral()

    def random_configuration(
        self, seed: np.random.Generator | int | None = None, batch: int | tuple[int, ...] = ()
    ) -> FloatArray:
        """Random configuration q.

        Uniform within limits; else angles in [−π, π] rad, lengths in [−1, 1] m, and uniform
        rotations.

        Parameters
        ----------
        seed : int or numpy.random.Generator, optional
            Seed or generator. Default: a new seed each time.
        batch : int or tuple of int, optional
            Shape of the batch. Default: one configuration.

        Returns
        -------
        ndarray, shape (*batch, nq)
            The configurations.
        """
        sizes = [batch] if np.ndim(batch) == 0 else batch
        shape = tuple(whole_number("batch", n, 0) for n in as_list("batch", sizes, "(100, 4)"))
        try:
            generator = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise InputError(
                f"seed={seed!r} must be an integer of at least 0, or a NumPy generator"
            ) from None
        return self._layout.random(generator, shape)

    def integrate(self, q: ArrayLike, dv: ArrayLike) -> FloatArray:
        """Configuration after moving from q with constant velocities dv for unit time, q ⊕ dv.

        Exact on the group: rotations multiply, a free body follows the screw motion dv. Runs in
        machine code, the program of the expression ``moved``; NumPy explains what fails there.

        Parameters
        ----------
        q : array_like, shape (..., nq)
            Configuration.
        dv : array_like, shape (..., nv)
            Velocities times the time step.

        Returns
        -------
        ndarray, shape (..., nq)
            The configuration.
        """
        fast = self.cache.get("moved") or self._compiled("moved")
        try:
            out = fast(q, dv)
        except InputError:  # explained below
            out = None
        return self._layout.integrate(q, dv) if out is None else out

    def _compiled(self, name: str) -> Callable[..., Any]:
        """The program of a catalogue's expression of configurations, in its shortest way."""

        def build() -> Callable[..., Any]:
            return public("compile")(getattr(public("operators"), name), self.model).fast

        return self.cached(name, build)

    def difference(self, q0: ArrayLike, q1: ArrayLike) -> FloatArray:
        """Constant velocities that lead from q0 to q1 in unit time; inverse of `integrate`.

        Rotations of spherical, free and planar joints take the shortest way, at most π.

        Parameters
        ----------
        q0 : array_like, shape (..., nq)
            Configuration at the beginning.
        q1 : array_like, shape (..., nq)
            Configuration at the end.

        Returns
        -------
        ndarray, shape (..., nv)
            The velocities.
        """
        return self._layout.difference(q0, q1)

    def qdot(self, q: ArrayLike, v: ArrayLike) -> NDArray[Any]:
        """q̇ = N(q) v, (..., nq); equal to v for joints without quaternion or plane."""
        return self._layout.qdot(q, v)

    # -------------------------------------------------------------- changed copies

    def attach(
        self, other: Model, at: Point = WORLD_NAME, placement: Pose | None = None, prefix: str = ""
    ) -> Self:
        """Return one model of both, with the other's world frame fixed in a body of this one.

        Gravity is this model's. What is welded to the other's world becomes part of the body it is
        attached to, with its inertia. Constraints of this mechanism stay; `other` must be a tree.

        Parameters
        ----------
        other : Model
            The model to attach.
        at : str or tuple, optional
            A body, a frame, "world", or (name, offset). Default: "world".
        placement : Pose, optional
            Pose of the other's world frame there. Default: the identity.
        prefix : str, optional
            Prefix of all names of `other`. Default: none.

        Returns
        -------
        Model
            The combined model.
        """
        edit.check_attachment(other, placement, prefix)
        if other.constraints:
            names = ", ".join(repr(c.name) for c in other.constraints[:3])
            raise ModelError(
                f"attach is for trees, and the mechanism to attach has constraints ({names}), "
                f"whose ends would need other names. Attach its tree and constrain the whole:\n"
                f"    pp.System(robot.attach(other.model, …), [constraints with the new names])"
            )
        host, X = self.resolve_point(at)
        body = WORLD_NAME if host == WORLD else self.body_names[host]
        X_body = X if placement is None else X @ placement
        both = edit.attached(self.description, other.description, body, X_body, prefix)
        return self._rebuilt(assemble(both))

    def _rebuilt(self, description: Description) -> Self:
        """The same mechanism of other bodies."""
        return cast(Self, Model(description))

    # -------------------------------------------------------------- storage

    def to_dict(self) -> dict[str, Any]:
        """Return the model as dicts, lists, strings and floats, for JSON; nothing is rounded."""
        return serialize.to_dict(self.description)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, inertia: InertiaPolicy = "warn") -> Model:
        """Inverse of `to_dict`, checked like a build; `inertia` as in `ModelBuilder.build`."""
        description = serialize.from_dict(data)
        validate(description, inertia)
        return Model(assemble(description))

    def _key(self) -> tuple[Any, ...]:
        return (self.description,)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Model, (self.description,)

    _repr_html_ = display

    def __repr__(self) -> str:
        modes = f"{sum(self.modes)} modes, " if any(self.modes) else ""
        return (
            f"<Model: {self.n_bodies} {'body' if self.n_bodies == 1 else 'bodies'}, "
            f"{modes}nq = {self.nq}, nv = {self.nv}, "
            f"{len(self.frames)} frame{'' if len(self.frames) == 1 else 's'}>"
        )
