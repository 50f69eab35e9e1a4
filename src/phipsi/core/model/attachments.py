"""Attachments: data that features hang on a mechanism, and how they follow its changes.

A mechanism is bodies, joints and frames. What else belongs to it (shapes that touch, rotors, what a
file says about drives) is an attachment of a description: the core stores it, asks it for checks,
tells it of every change, and writes it to files, and knows nothing else about it. A package of your
own registers another one; `BodyRecords` is the base of most: records that sit on bodies.

>>> from dataclasses import dataclass
>>> import phipsi as pp
>>> @dataclass(frozen=True)
... class Lamp:
...     name: str
...     body: str
...     power: float
>>> @pp.attachments.register
... class Lamps(pp.attachments.BodyRecords):
...     keys, record = ("lamps",), Lamp
>>> arm = pp.examples.planar_arm(2).with_attachment(Lamps([Lamp("torch", "link2", 5.0)]))
>>> arm.with_body("link1", armature=0.1).of(Lamps).records
(Lamp(name='torch', body='link2', power=5.0),)
>>> arm.to_dict()["lamps"]
[{'name': 'torch', 'body': 'link2', 'power': 5.0}]

Reasons: docs/decisions/0069.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast, final

import numpy as np
from numpy.typing import NDArray

from phipsi.core.model.plain_records import checked_items, decoded, encoded
from phipsi.core.model.pose import Pose
from phipsi.core.model.rate_rows import RateRows
from phipsi.core.model.tree import WORLD_NAME
from phipsi.core.model.value import PlainValue, Value, check_text, check_type
from phipsi.errors import ModelError, one_of
from phipsi.package_state import only_public
from phipsi.views import views_named

__all__ = ["Attachment", "BodyRecords", "Mount", "Picture", "Removal", "Weld", "register"]
__dir__ = only_public(__name__)

Kind = TypeVar("Kind", bound="Attachment")
FloatArray = NDArray[np.float64]
CORE_KEYS = ("format", "version", "gravity", "bodies", "frames", "parts", "world_inertia")
"""The fields of a stored model that are no attachments."""
_SIZES = {"box": 3, "sphere": 1, "cylinder": 2, "capsule": 2, "ellipsoid": 3}
_ROWS, _COLUMNS = [5, 2, 0, 1, 0, 1, 2, 0, 0, 1], [5, 4, 5, 3, 0, 1, 2, 1, 2, 2]
"""Where [m, mcx, mcy, mcz, Jxx, Jyy, Jzz, Jxy, Jxz, Jyz] are in the inertia matrix of a body."""


# ---- changes of a mechanism ----------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Weld:
    """Bodies on fixed joints become part of others.

    Parameters
    ----------
    hosts : mapping of str to (str, Pose)
        By the name of every body and "world": the body that it is part of from now on, and its pose
        there.
    joints : container of str
        Names of the joints that are removed.
    """

    hosts: Mapping[str, tuple[str, Pose]]
    joints: Container[str]

    def moved(self, record: Any, host: str = "body") -> Any:
        """The record on the body that its own is now part of, with its `placement` there."""
        name, X = self.hosts[getattr(record, host)]
        if name == getattr(record, host):
            return record
        return _placed(record, {host: name}, X)


@final
@dataclass(frozen=True)
class Removal:
    """Bodies, their joints and the frames on them are removed.

    Parameters
    ----------
    stays : callable
        ``stays(body) -> bool``: whether a body or "world" stays.
    bodies : container of str
        Names of the bodies that are removed.
    joints : container of str
        Names of the joints that are removed.
    frames : mapping of str to str
        The body of each frame.
    """

    stays: Callable[[str], bool]
    bodies: Container[str]
    joints: Container[str]
    frames: Mapping[str, str]

    def keeps(self, name: str) -> bool:
        """Whether a body or frame of this name, or "world", stays."""
        return self.stays(self.frames.get(name, name))


@final
@dataclass(frozen=True)
class Mount:
    """A mechanism becomes part of another one, its world fixed in a body of that.

    Parameters
    ----------
    prefix : str
        Prefix of all of its names.
    body : str
        A body of the other mechanism, or "world".
    pose : Pose
        Pose of its world in that body.
    """

    prefix: str
    body: str
    pose: Pose

    def renamed(self, record: Any, *names: str) -> Any:
        """The record with the prefix before the names in these fields."""
        return replace(record, **{name: self.prefix + getattr(record, name) for name in names})

    def moved(self, record: Any, host: str = "body", *names: str) -> Any:
        """The same, placed on `body` if its field `host` was the world."""
        new = {name: self.prefix + getattr(record, name) for name in (*names, host)}
        if getattr(record, host) != WORLD_NAME:
            return replace(record, **new)
        return _placed(record, new | {host: self.body}, self.pose)


def _placed(record: Any, new: dict[str, Any], X: Pose) -> Any:
    """The record with other fields, its `placement` behind X."""
    if hasattr(record, "placement"):
        new = new | {"placement": X @ record.placement}
    return replace(record, **new)


@final
@dataclass(frozen=True)
class Picture:
    """A solid that pages draw on a body, beside the body itself.

    Parameters
    ----------
    body : str
        A body, a frame or "world".
    kind : {"box", "sphere", "cylinder", "capsule", "ellipsoid"}
        What it is.
    size : tuple of float
        In m: edges of a box; radius of a sphere; radius and length along z of a cylinder or
        capsule; radii of an ellipsoid.
    placement : Pose, optional
        Its pose in the body. Default: the identity.
    color : tuple of float, optional
        Red, green and blue from 0 to 1. Default: that of the body.
    """

    body: str
    kind: str
    size: tuple[float, ...]
    placement: Pose = Pose()
    color: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        one_of("Picture: kind", self.kind, _SIZES, error=ModelError)
        if len(self.size) != _SIZES[self.kind]:
            raise ModelError(
                f"Picture: a {self.kind} has {_SIZES[self.kind]} numbers as its size, not "
                f"{self.size!r}."
            )


class Described(Protocol):
    """What attachments see of a mechanism: the records of a `Description`."""

    @property
    def bodies(self) -> tuple[Any, ...]:
        """Bodies with the joints that attach them to their parents."""
        ...

    @property
    def frames(self) -> tuple[Any, ...]:
        """Frames on bodies."""
        ...

    @property
    def attachments(self) -> Attachments:
        """What features hang on it."""
        ...


# ---- attachments ---------------------------------------------------------------------------------


class Attachment:
    """Data of a feature that is attached to a mechanism: a frozen value, empty without arguments.

    Two attachments with the same content are equal. The methods say what becomes of it when the
    mechanism changes; those of the base class leave it as it is.

    Attributes
    ----------
    keys : tuple of str
        Its fields in a stored model, on the level of "bodies".
    """

    __slots__ = ()
    keys: ClassVar[tuple[str, ...]] = ()

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return self != type(self)()

    def __repr__(self) -> str:
        of = [f"{len(x)} {kind}{'s' * (len(x) != 1)}" for kind, x in self.names().items()]
        return f"<{type(self).__name__}{': ' if of else ''}{', '.join(of)}>"

    def names(self) -> dict[str, list[str]]:
        """The names that must differ, by what they are names of, such as "shape"."""
        return {}

    def places(self) -> Iterable[tuple[str, str, str]]:
        """What sits on bodies: what it is, its name, and the name of the body."""
        return ()

    def check(self, description: Described) -> None:
        """Raise a ModelError for what cannot be on this mechanism."""

    def pictures(self) -> Iterable[Picture]:
        """What pages draw of it."""
        return ()

    def add_inertia(
        self, description: Described, matrices: FloatArray, armature: FloatArray
    ) -> Mapping[int, RateRows]:
        """Add to the inertia matrices and the armature, in place.

        Parameters
        ----------
        description : Description
            The mechanism.
        matrices : ndarray, shape (n, 6, 6)
            Inertia matrices of the bodies.
        armature : ndarray, shape (nv,)
            Armature.

        Returns
        -------
        mapping of int to RateRows
            By the body outboard of a joint: inertia that is not a constant matrix.
        """
        return {}

    def check_momentum(self, model: Any, function: str) -> None:
        """Raise an error if the momentum of bodies is not that of all there is."""

    def joint_forces(self, model: Any, f: Any, q: Any, v: Any, vdot: Any, V: Any, A: Any) -> Any:
        """The forces of parents on bodies, of the inertias that the attachment adds.

        `f` are those of the equations of motion, which count an inertia where `add_inertia` put it;
        what passes through a joint is that of the parts where they are.

        Parameters
        ----------
        model : Model
            The mechanism.
        f : ndarray, shape (..., n, 6)
            Joint forces of the equations of motion.
        q : ndarray, shape (..., nq)
            Configuration.
        v, vdot : ndarray, shape (..., nv)
            Generalized velocities and accelerations.
        V, A : ndarray, shape (..., n, 6)
            Spatial velocities and accelerations of the bodies.

        Returns
        -------
        ndarray, shape (..., n, 6)
            The forces that pass through the joints.
        """
        return f

    def welded(self, description: Described, weld: Weld) -> Self:
        """What is left after bodies on fixed joints became part of others."""
        return self

    def locked(self, description: Described, joints: Container[str]) -> Self:
        """What is left after joints were locked; their bodies are welded next."""
        return self

    def reduced(self, description: Described, removal: Removal) -> Self:
        """What is left after bodies were taken away."""
        return self

    def attached(self, other: Any, mount: Mount) -> Self:
        """This and what the mechanism that is attached has of the same kind."""
        raise NotImplementedError(
            f"{type(self).__name__} must define `attached`: how two of them become one"
        )

    def reweighed(self, body: str, *, payload: bool) -> Self:
        """What is left after a body got another inertia, or a payload."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """The fields of the stored model, as dicts, lists, strings and numbers."""
        raise NotImplementedError(f"{type(self).__name__} must define `to_dict`: how it is stored")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`; `data` has those of the `keys` that are there."""
        raise NotImplementedError(f"{cls.__name__} must define `from_dict`: how it is read")


class BodyRecords(Attachment, PlainValue):
    """Records that are fixed in bodies, all of one class: base of most features' attachments.

    The record is a frozen dataclass with `name`, `body` and, where it matters, `placement`, its
    pose in the body. Records stay with their bodies: welding moves them to the body that theirs
    becomes part of, they are removed with their body, and attaching puts a prefix before their
    names. All fields are stored: names, numbers, tuples of these, and poses.

    Parameters
    ----------
    records : iterable, optional
        The records. Default: none.

    Attributes
    ----------
    keys : tuple of str
        One field of a stored model.
    record : type
        The class of the records.
    what : str
        The word for one of them in errors. Default: the class name in lower case.
    """

    __slots__ = ("records",)
    record: ClassVar[type[Any]]
    what: ClassVar[str] = ""
    records: tuple[Any, ...]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.what = vars(cls).get("what") or cls.record.__name__.lower()

    def __init__(self, records: Iterable[Any] = ()) -> None:
        self._set(records=tuple(records))
        for record in self.records:
            example = f"{self.record.__name__}(…)"
            check_type(type(self).__name__, self.what, record, self.record, example)
            check_text(record.name, f"a {self.what}'s name")
            check_text(record.body, f"the body of {self.what} {record.name!r}")

    def _key(self) -> tuple[Any, ...]:
        return (self.records,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self.records)!r})"

    def with_record(self, record: Any) -> Self:
        """Return these and one more."""
        return type(self)([*self.records, record])

    def names(self) -> dict[str, list[str]]:
        """The names of the records."""
        return {self.what: [record.name for record in self.records]}

    def places(self) -> Iterable[tuple[str, str, str]]:
        """The bodies of the records."""
        return [(self.what, record.name, record.body) for record in self.records]

    def welded(self, description: Described, weld: Weld) -> Self:
        """The records on the bodies that theirs are part of."""
        return type(self)([weld.moved(record) for record in self.records])

    def reduced(self, description: Described, removal: Removal) -> Self:
        """The records on bodies that stay."""
        return type(self)([record for record in self.records if removal.keeps(record.body)])

    def attached(self, other: Self, mount: Mount) -> Self:
        """The records of both."""
        return type(self)([*self.records, *(mount.moved(x, "body", "name") for x in other.records)])

    def to_dict(self) -> dict[str, Any]:
        """A list of records, each with its fields."""
        return {self.keys[0]: [encoded(record) for record in self.records]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        listed = checked_items(data, cls.keys[0])
        return cls([decoded(cls.record, entry, f"a {cls.what}") for entry in listed])


class SystemAttachment:
    """Data of a feature that is attached to a system, made for its tree, such as `Contacts`.

    Attributes
    ----------
    model : Model
        The tree that it was made for.
    """

    __slots__ = ()
    model: Any

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def on(self, model: Any) -> Self:
        """The same for a changed copy of the tree."""
        raise NotImplementedError(
            f"{type(self).__name__} must define `on`: how it follows changes of the model"
        )

    def summary(self) -> str:
        """A few words for the text of a system."""
        raise NotImplementedError(f"{type(self).__name__} must define `summary`: what it is")


# ---- kinds of attachments ------------------------------------------------------------------------

_KINDS: dict[str, str | type[Attachment]] = {
    key: target for keys, target in views_named("attachment ").items() for key in keys.split()
}


def _is_kind(given: object) -> bool:
    return isinstance(given, type) and issubclass(given, Attachment)


def register(kind: type[Kind]) -> type[Kind]:
    """Make a class of attachments known, so that stored models can contain it; a decorator.

    Parameters
    ----------
    kind : type
        A subclass of `Attachment`.

    Returns
    -------
    type
        The same class.
    """
    if not _is_kind(kind):
        raise ModelError(f"register takes a class derived from Attachment, not {kind!r}.")
    if not kind.keys:
        raise ModelError(
            f"{kind.__name__} has no fields in a stored model. Name them, for example\n"
            f'    keys = ("{kind.__name__.lower()}",)'
        )
    target = f"{kind.__module__}:{kind.__name__}"
    for key in kind.keys:
        other = _KINDS.get(key, target)
        other = other if isinstance(other, str) else f"{other.__module__}:{other.__name__}"
        if other != target or key in CORE_KEYS:
            whose = "the mechanism itself" if key in CORE_KEYS else other
            raise ModelError(
                f"{kind.__name__}: the field {key!r} of stored models is that of {whose}. Choose "
                f"another key."
            )
        _KINDS[key] = kind
    return kind


def kind_of(key: str) -> Any:
    """The class of the attachment with this field in stored models; its module is loaded."""
    kind = _KINDS[key]
    if isinstance(kind, str):
        module, _, name = kind.partition(":")
        kind = getattr(import_module(module), name)
    return kind


def known_keys() -> tuple[str, ...]:
    """The fields of all registered attachments in a stored model, in their order."""
    return tuple(_KINDS)


# ---- those of one mechanism ----------------------------------------------------------------------


@final
class Attachments(Value):
    """The attachments of a description, one of each kind; those that are empty are not kept."""

    __slots__ = ("_by_kind",)
    _by_kind: dict[type[Attachment], Attachment]

    def __init__(self, *given: Attachment) -> None:
        for x in given:
            if not isinstance(cast(object, x), Attachment) or not {*x.keys} & {*_KINDS}:
                raise ModelError(
                    f"{x!r} is not an attachment that is registered. Write above its class, which "
                    f"derives from pp.attachments.Attachment or BodyRecords:\n"
                    f"    @pp.attachments.register"
                )
        self._set(_by_kind={type(x): x for x in given if x})

    def of(self, kind: type[Kind]) -> Kind:
        """The one of a kind; an empty one if there is none."""
        found = self._by_kind.get(kind)
        return kind() if found is None else cast(Kind, found)

    def stored_as(self, key: str) -> Any:
        """The one with this field in a stored model, or None; its module is not loaded for that."""
        return next((x for x in self._by_kind.values() if key in x.keys), None)

    def having(self, *more: Attachment) -> Attachments:
        """These with others, each in place of the one of its kind."""
        return Attachments(*(self._by_kind | {type(x): x for x in more}).values())

    def without(self, key: str) -> Attachments:
        """These without the one that has this field in a stored model."""
        return Attachments(*(x for x in self if key not in x.keys))

    def names(self) -> dict[str, list[str]]:
        """The names of all of them, by what they are names of."""
        return {what: names for x in self for what, names in x.names().items()}

    def added_inertia(self, description: Described, nv: int) -> tuple[FloatArray, FloatArray]:
        """Inertial parameters (n, 10) and armature (nv,) that they add to those of the bodies."""
        matrices, armature = np.zeros((len(description.bodies), 6, 6)), np.zeros(nv)
        for x in self:
            x.add_inertia(description, matrices, armature)
        return matrices[:, _ROWS, _COLUMNS], armature

    @property
    def with_inertia(self) -> tuple[Attachment, ...]:
        """Those that add inertia to bodies or joints."""
        kinds = self._by_kind.values()
        return tuple(x for x in kinds if type(x).add_inertia is not Attachment.add_inertia)

    def check_momentum(self, model: Any, function: str) -> None:
        """Raise an error if the momentum of bodies is not that of all there is."""
        for x in self.with_inertia:
            x.check_momentum(model, function)

    def joint_forces(self, model: Any, f: Any, q: Any, v: Any, vdot: Any, V: Any, A: Any) -> Any:
        """Forces of parents on bodies, with every inertia where it is; see `Attachment`."""
        for x in self.with_inertia:
            f = x.joint_forces(model, f, q, v, vdot, V, A)
        return f

    def map(self, change: Callable[[Attachment], Attachment]) -> Attachments:
        """What each becomes."""
        return Attachments(*map(change, self))

    def joined(self, others: Attachments, mount: Mount) -> Attachments:
        """These and those of a mechanism that is attached."""
        kinds = dict.fromkeys([*self._by_kind, *others._by_kind])
        return Attachments(*(self.of(kind).attached(others.of(kind), mount) for kind in kinds))

    def __bool__(self) -> bool:
        return bool(self._by_kind)

    def __iter__(self) -> Iterator[Attachment]:
        order = list(_KINDS)
        return iter(sorted(self._by_kind.values(), key=lambda x: order.index(x.keys[0])))

    def _key(self) -> tuple[Any, ...]:
        return (self._by_kind,)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return Attachments, tuple(self)

    def __repr__(self) -> str:
        return f"Attachments({', '.join(map(repr, self))})"


NO_ATTACHMENTS = Attachments()


# ---- reading -------------------------------------------------------------------------------------


def read_attachments(data: Mapping[str, Any]) -> Attachments:
    """The attachments of a stored model, by the fields that are there."""
    kinds = dict.fromkeys(kind_of(key) for key in data if key in _KINDS)
    return Attachments(
        *(kind.from_dict({k: data[k] for k in kind.keys if k in data}) for kind in kinds)
    )
