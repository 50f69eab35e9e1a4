"""Contents of a robot file beyond the mechanism: couplings, joints, shapes, and findings."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, fields, replace
from math import inf, isinf
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

from phipsi.core.model import (
    ALL_GROUPS,
    Attachment,
    Described,
    Mount,
    Pose,
    Removal,
    plain,
    register,
)
from phipsi.errors import ParseError
from phipsi.support import fields_in_line

if TYPE_CHECKING:
    from phipsi.attached.material import Material
    from phipsi.attached.shapes import BodyShape

Numbers = tuple[float, ...]


@final
@dataclass(frozen=True, slots=True)
class MimicJoint:
    """One joint is said to follow another: q[joint] = multiplier · q[of] + offset.

    A record only: the model moves both joints independently.
    """

    joint: str
    of: str
    multiplier: float = 1.0
    offset: float = 0.0


@final
@dataclass(frozen=True, slots=True)
class JointProperties:
    """What a file says of a joint and its drive; `source_type` is the file's word for the joint.

    `effort` (N·m or N) and `velocity` (rad/s or m/s) are the largest ones, inf for none; `friction`
    is Coulomb friction (N·m or N); `lower_effort`, the lower limit of the effort, None for
    −`effort`. Each is one number, or one per rate of the joint where these differ.
    """

    joint: str
    source_type: str = ""
    effort: float | Numbers = inf
    velocity: float | Numbers = inf
    friction: float | Numbers = 0.0
    lower_effort: float | Numbers | None = None


@final
@dataclass(frozen=True, slots=True)
class LinkShape:
    """A visual or collision shape fixed in a link.

    **Attributes:** `link`, the body or frame it is fixed in; `role`, "visual" or "collision";
    `kind`, with the meaning of `size` in m: "box" (edges), "sphere" (radius), "cylinder" and
    "capsule" (radius, length along z), "ellipsoid" (half axes), "plane" (half widths, 0 is
    infinite), "mesh" (scale factors), "heightfield" (spacing along x and y); `placement`, pose in
    the link; `uri`, the mesh as the file writes it; `file`, where it was found, or None; `color`,
    red, green, blue, opacity, or empty; `material`, if the file gives friction; `group` and `mask`,
    as those of `BodyShape`; `heights`, of a height field as in `shapes.HeightField`. Of MJCF:
    `condim`, in how many dimensions contacts resist (from 3 on friction acts, from 4 on torsion,
    from 6 on rolling; 0 in other formats), and `priority`, by which `Contacts` combines materials;
    `touches_parent`, whether it touches the bodies that its own is joined to. Of SDF: `family`, if
    it is not empty, shapes of the same family do not touch each other.
    """

    link: str
    role: str
    kind: str
    size: Numbers
    placement: Pose = Pose()
    name: str = ""
    uri: str = ""
    file: str | None = None
    color: Numbers = ()
    material: Material | None = None
    group: int = 1
    mask: int = ALL_GROUPS
    heights: tuple[Numbers, ...] = ()
    condim: int = 0
    priority: int = 0
    touches_parent: bool = False
    family: str = ""

    def __repr__(self) -> str:
        return fields_in_line(self)


@final
@dataclass(frozen=True, slots=True)
class Exclusion:
    """Two bodies whose shapes do not touch, according to the file."""

    body: str
    other: str


@final
@dataclass(frozen=True, slots=True)
class ShapePair:
    """Two shapes that touch whatever their groups and bodies are, according to the file.

    **Attributes:** `shape`, `other`, their names; `material`, of the two together.
    """

    shape: str
    other: str
    material: Material | None = None


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """One remark of an importer about an element of a file.

    **Attributes:** `kind`, a word such as "triangle"; `element`, for example "link 'hand'"; `body`,
    the name of the body, frame or joint; `message`; `numbers`, those concerned; `file`, `line`;
    `is_problem`, whether it is more than a note.
    """

    kind: str
    element: str
    body: str
    message: str
    numbers: Numbers = ()
    file: str = ""
    line: int = 0
    is_problem: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.element}: {self.message}"


@final
@register
@dataclass(frozen=True)
class FileMetadata(Attachment):
    """All of it; empty for a mechanism that was built by hand."""

    keys: ClassVar[tuple[str, ...]] = (
        "name", "couplings", "joint_properties", "geometry", "diagnosis", "exclusions", "pairs"
    )  # fmt: skip
    name: str = ""
    couplings: tuple[MimicJoint, ...] = ()
    joint_properties: tuple[JointProperties, ...] = ()
    geometry: tuple[LinkShape, ...] = ()
    diagnosis: tuple[Finding, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()
    pairs: tuple[ShapePair, ...] = ()

    def locked(self, description: Described, joints: Container[str]) -> Self:
        """Without what is said about joints that do not move any more."""
        return replace(
            self,
            couplings=tuple(
                c for c in self.couplings if c.joint not in joints and c.of not in joints
            ),
            joint_properties=tuple(r for r in self.joint_properties if r.joint not in joints),
        )

    def reweighed(self, body: str, *, payload: bool) -> Self:
        """Without the findings about an inertia that no longer hold."""
        gone = ("massless", "immovable") if payload else INERTIA_KINDS
        kept = tuple(f for f in self.diagnosis if f.body != body or f.kind not in gone)
        return replace(self, diagnosis=kept)

    def reduced(self, description: Described, removal: Removal) -> Self:
        """What is said about bodies and joints that stay; findings are of the whole file."""
        geometry = tuple(s for s in self.geometry if removal.keeps(s.link))
        names = {s.name for s in geometry}
        return replace(
            self.locked(description, removal.joints),
            geometry=geometry,
            exclusions=tuple(
                x for x in self.exclusions if removal.keeps(x.body) and removal.keeps(x.other)
            ),
            pairs=tuple(x for x in self.pairs if {x.shape, x.other} <= names),
        )

    def attached(self, other: Self, mount: Mount) -> Self:
        """Both, with a prefix before the names of the other."""
        renamed = mount.renamed
        exclusions = [x for x in other.exclusions if "world" not in (x.body, x.other)]
        return type(self)(
            self.name or other.name,
            (*self.couplings, *(renamed(c, "joint", "of") for c in other.couplings)),
            (*self.joint_properties, *(renamed(r, "joint") for r in other.joint_properties)),
            (*self.geometry, *(_moved(s, mount) for s in other.geometry)),
            (*self.diagnosis, *(renamed(f, "body") for f in other.diagnosis)),
            (*self.exclusions, *(renamed(x, "body", "other") for x in exclusions)),
            (*self.pairs, *(renamed(x, "shape", "other") for x in other.pairs)),
        )

    def to_dict(self) -> dict[str, Any]:
        """All entries as plain dicts and lists, for JSON."""
        out: dict[str, Any] = {"name": self.name} if self.name else {}
        for key in _LISTS:
            records = [_record_to_dict(record) for record in getattr(self, key)]
            if records:
                out[key] = records
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        lists = {
            key: tuple(_record_from_dict(kind, record, key) for record in data.get(key) or ())
            for key, kind in _LISTS.items()
        }
        return cls(str(data.get("name") or ""), **lists)


def _moved(shape: LinkShape, mount: Mount) -> LinkShape:
    """A shape of the mechanism that is attached."""
    return mount.moved(shape, "link", *(n for n in ("name", "family") if getattr(shape, n)))


def as_file_shape(shape: BodyShape) -> LinkShape:
    """A shape of a body as files state it: a collision shape of its link."""
    from phipsi.attached.shapes import ConvexMesh, HeightField, Plane

    own = shape.shape
    kind, half = own.kind.lower(), own.numbers
    if isinstance(own, ConvexMesh | HeightField | Plane):
        size: Numbers = ()
    else:
        size = tuple(2 * x for x in half) if kind == "box" else half
        size = (half[0], 2 * half[1]) if kind in ("capsule", "cylinder") else size
    material = shape.material
    return LinkShape(shape.body, "collision", kind, size, shape.placement, shape.name,
                 material=material, group=shape.group, mask=shape.mask)  # fmt: skip


# The kinds of findings that concern the inertia of one body.
INERTIA_KINDS = ("massless", "singular", "negative", "triangle", "immovable", "repaired")
_LISTS: dict[str, type] = {
    "couplings": MimicJoint,
    "joint_properties": JointProperties,
    "geometry": LinkShape,
    "diagnosis": Finding,
    "exclusions": Exclusion,
    "pairs": ShapePair,
}


def _record_to_dict(record: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if value == field.default:
            continue
        if isinstance(value, Pose):
            value = [list(row) for row in plain(value.matrix[:3])]
        elif field.name == "material":
            from phipsi.attached.material import material_to_dict

            value = material_to_dict(value)
        out[field.name] = [_json_number(x) for x in value] if isinstance(value, tuple) else value
    return out


def _json_number(value: Any) -> Any:
    """The value; JSON has no infinite numbers, so those are words."""
    return str(value) if isinstance(value, float) and isinf(value) else value


def _record_from_dict(kind: type, data: Any, key: str) -> Any:
    try:
        values: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in data.items()
        }
        if kind is JointProperties:
            for name, value in values.items():
                if isinstance(value, tuple):
                    values[name] = tuple(map(float, value))
        if "heights" in values:
            values["heights"] = tuple(map(tuple, values["heights"]))
        if "placement" in values:
            rows = values["placement"]
            values["placement"] = Pose([r[:3] for r in rows], [r[3] for r in rows])
        if values.get("material") is not None:
            from phipsi.attached.material import material_from_dict

            values["material"] = material_from_dict(values["material"])
        if not isinstance(values.get("file", ""), str | None):
            raise TypeError("file is not the name of a file")
        return kind(**values)
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise ParseError(
            f"an entry of {key!r} is not a {kind.__name__}: {data!r} ({error})."
        ) from error
