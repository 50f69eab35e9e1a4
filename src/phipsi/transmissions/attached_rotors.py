"""Rotors as an attachment: what becomes of them when the mechanism changes."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, cast, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model import (
    WORLD_NAME,
    Attachment,
    Body,
    Described,
    Description,
    Mount,
    PlainValue,
    Removal,
    SpatialInertia,
    Weld,
    checked_fields,
    checked_items,
    encoded,
    is_mapping,
    register,
    unit_axis,
)
from phipsi.errors import ModelError
from phipsi.transmissions.rotor_inertias import fold_into
from phipsi.transmissions.rotor_reactions import at_joints, reject_unseen
from phipsi.transmissions.rotors import Rotor, carrier_name, check_joint, make_rotor, outboard
from phipsi.transmissions.skew_rotors import SkewRotors

FloatArray = NDArray[np.float64]


@final
@register
class Rotors(Attachment, PlainValue):
    """The rotors of a mechanism; `records` are all of them."""

    __slots__ = ("records",)
    keys = ("rotors",)
    records: tuple[Rotor, ...]

    def __init__(self, records: Sequence[Rotor] = ()) -> None:
        self._set(records=tuple(records))

    def _key(self) -> tuple[Any, ...]:
        return (self.records,)

    made = staticmethod(make_rotor)

    @classmethod
    def added(
        cls, description: Description, rotor: Rotor, inertia: SpatialInertia | None
    ) -> Description:
        """The description with one more rotor, whose axis is in the axes of its carrier.

        `inertia`, of the rotor at rest in the frame of the carrier, is added to that of this.
        """
        found = [outboard(description.bodies, rotor, name) for name in rotor.joints]
        for body in found:
            check_joint(rotor, body)
        body = found[0]
        others = description.of(cls).records
        if any(other.name == rotor.name for other in others):
            raise ModelError(
                f"two rotors are named {rotor.name!r}; errors name them, so names must be unique."
            )
        if rotor.axis is not None and rotor.on == "parent":
            axis = body.placement.rotation.T @ np.array(rotor.axis)
            rotor = replace(rotor, axis=unit_axis(axis, f"the axis of rotor {rotor.name!r}"))
        bodies = description.bodies
        if inertia is not None:
            if not isinstance(cast(object, inertia), SpatialInertia):
                raise ModelError(
                    f"rotor {rotor.name!r}: inertia must be a SpatialInertia, not {inertia!r}."
                )
            carrier = carrier_name(bodies, rotor)
            if carrier == WORLD_NAME:
                description = replace(
                    description, world_inertia=description.world_inertia + inertia
                )
            bodies = tuple(
                replace(b, inertia=b.inertia + inertia) if b.name == carrier else b for b in bodies
            )
        return replace(description, bodies=bodies).having(cls([*others, rotor]))

    def names(self) -> dict[str, list[str]]:
        """Names of rotors; errors name them."""
        return {"rotor": [rotor.name for rotor in self.records]}

    def add_inertia(
        self, description: Described, matrices: FloatArray, armature: FloatArray
    ) -> Mapping[int, SkewRotors]:
        """Add what is constant inertias; the rest is skew."""
        return fold_into(description, matrices, armature)

    def check_momentum(self, model: Any, function: str) -> None:
        """A rotor may have a momentum that is that of no body."""
        if self:
            reject_unseen(model, function)

    def joint_forces(self, model: Any, f: Any, q: Any, v: Any, vdot: Any, V: Any, A: Any) -> Any:
        """Every rotor on its own carrier."""
        return at_joints(model, f, q, v, vdot, V, A)

    def welded(self, description: Described, weld: Weld) -> Self:
        """Rotors that turned with joints that are gone are at rest, and part of their carriers."""
        return self._without_joints(description, weld.joints)

    def locked(self, description: Described, joints: Container[str]) -> Self:
        """The same for joints that are locked."""
        return self._without_joints(description, joints)

    def reduced(self, description: Described, removal: Removal) -> Self:
        """Those of joints that stay; on bodies that go they are as on the world: armature."""
        return self._without_joints(description, removal.joints, removal.bodies)

    def _without_joints(
        self, description: Described, still: Container[str], gone: Container[str] = ()
    ) -> Self:
        found = [_without(r, still, gone, description.bodies) for r in self.records]
        return type(self)([r for r in found if r is not None])

    def attached(self, other: Self, mount: Mount) -> Self:
        """The rotors of both; those on the world would get a world that moves."""
        for rotor in other.records:
            if rotor.on == "world" and mount.body != WORLD_NAME:
                raise ModelError(
                    f"rotor {rotor.name!r} is mounted on the world of the mechanism to attach, "
                    f"which becomes part of the moving body {mount.body!r}. Mount it on a body of "
                    'its joint, on="parent" or on="child".'
                )
        return type(self)([*self.records, *(_renamed(r, mount.prefix) for r in other.records)])

    def to_dict(self) -> dict[str, Any]:
        """A list of rotors, each with its fields."""
        return {"rotors": [encoded(rotor) for rotor in self.records]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        return cls([_rotor_from_dict(rotor) for rotor in checked_items(data, "rotors")])


def _renamed(rotor: Rotor, prefix: str) -> Rotor:
    joints = tuple(prefix + name for name in rotor.joints)
    joint = joints[0] if isinstance(rotor.joint, str) else joints
    return replace(rotor, name=prefix + rotor.name, joint=joint)


def _rotor_from_dict(data: Any) -> Rotor:
    where = f"rotor {data.get('name')!r}" if is_mapping(data) else "a rotor"
    given = checked_fields(data, where, ("name", "joint", "ratio", "moment"), ("axis", "on"))
    arguments: dict[str, Any] = {"axis": None, "on": "parent", **given}
    return make_rotor(**arguments)


def _without(
    rotor: Rotor, still: Container[str], gone: Container[str], bodies: Sequence[Body]
) -> Rotor | None:
    left = [i for i, name in enumerate(rotor.joints) if name not in still]
    if len(left) == len(rotor.joints) or not left:
        return rotor if left else None
    carrier = carrier_name(bodies, rotor)
    if left[0] != 0 and (carrier == WORLD_NAME or carrier in gone):
        rotor = replace(rotor, on="world", axis=None)
    elif left[0] != 0:
        raise ModelError(
            f"rotor {rotor.name!r} is mounted on the {rotor.on} of joint {rotor.joints[0]!r}, "
            f"which no longer moves, and also turns with {rotor.joints[left[0]]!r}. Build the "
            "mechanism without it, and add a rotor of the remaining joints."
        )
    joints, rows = tuple(rotor.joints[i] for i in left), rotor.rows
    return replace(rotor, joint=joints, ratio=tuple(tuple(row[i] for i in left) for row in rows))
