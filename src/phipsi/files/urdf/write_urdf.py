"""`save_urdf`: write a model as a URDF file.

Links that were welded when the model was loaded are written as the links they were, with their own
inertias, unless the body they are part of was changed since; then the body carries the whole
inertia and they are written without mass.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, final

import numpy as np

from phipsi.attached import FileMetadata, JointProperties, LinkShape, MimicJoint, as_file_shape
from phipsi.core.model import (
    UNAFFECTED,
    WORLD_NAME,
    Body,
    Description,
    Model,
    Pose,
    Refusal,
    SpatialInertia,
    joints,
    plane_axes,
    rpy_of_rotation,
    supports,
    tree_of,
    weld,
)
from phipsi.errors import ModelError, warn
from phipsi.files.files import unused
from phipsi.files.mimic_joints import mimic_constraint
from phipsi.files.parsed_robot import ROOT_JOINT
from phipsi.support import atomic_write_text, named_as

_UNBOUNDED = 1.7976931348623157e308
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_GRAVITY = (0.0, 0.0, -9.81)


@supports(
    loops=Refusal("URDF describes trees only, and its file would be that of another mechanism"),
    rotors=UNAFFECTED,
)
def save_urdf(model: Model, path: str | os.PathLike[str] | None = None) -> str:
    """Write a model as URDF and return the text.

    A base on the free joint that ``load(path, base="free")`` added is written as the base link:
    load it the same way again. Joints that mimic others, as `load` reads them, are written as such;
    other constraints are rejected.

    Parameters
    ----------
    model : Model
        A tree, or a system whose constraints are mimic joints.
    path : str or path, optional
        Where to write it. Default: only return the text.

    Returns
    -------
    str
        The text of the file.

    Raises
    ------
    ModelError
        If URDF cannot describe the model (joint types it lacks).

    Warns
    -----
    PhipsiWarning
        If something is lost: armature, rotors, drives with different torque limits in both
        directions, gravity other than 9.81 m/s² along −z.

    See Also
    --------
    load : Read a robot file.

    Examples
    --------
    >>> import phipsi as pp
    >>> arm = pp.examples.planar_arm(2).with_gravity((0, 0, -9.81))
    >>> pp.save_urdf(arm).count("<joint ")
    3
    """
    if path is not None:
        path = named_as(path, "a robot in URDF", (".urdf", ".xml"))
    mimics = {mimic_constraint(coupling) for coupling in getattr(model, "couplings", ())}
    only_mimics = mimics and mimics.issuperset(model.constraints)
    tree = model.model if only_mimics else tree_of(model, save_urdf)
    _warn_of_losses(model.model)
    text = _URDFWriter(tree).text()
    if path is not None:
        atomic_write_text(path, text)
    return text


def _warn_of_losses(model: Model) -> None:
    lost: list[str] = []
    turning = [body.joint_name for body in model.description.bodies if any(body.armature)]
    if turning:
        lost.append(f"the armature of {len(turning)} joint(s), for example {turning[0]!r}")
    if model.rotors:
        lost.append(f"{len(model.rotors)} rotor(s), for example {model.rotors[0].name!r}")
    one_sided = [r.joint for r in model.joint_properties.values() if r.lower_effort is not None]
    if one_sided:
        lost.append(
            f"the lower torque limits of {len(one_sided)} joint(s), such as {one_sided[0]!r}"
        )
    if tuple(model.gravity.tolist()) != _GRAVITY:
        lost.append(f"gravity {tuple(model.gravity.tolist())}")
    if lost:
        warn(f"URDF cannot represent {' and '.join(lost)}; they are omitted.")


@final
class _URDFWriter:
    def __init__(self, model: Model) -> None:
        self.model = model
        extras = model.of(FileMetadata)
        self.couplings: dict[str, MimicJoint] = {c.joint: c for c in extras.couplings}
        self.joint_properties: dict[str, JointProperties] = {
            r.joint: r for r in extras.joint_properties
        }
        self.shapes: dict[str, list[LinkShape]] = {}
        for shape in (*extras.geometry, *map(as_file_shape, model.shapes)):
            self.shapes.setdefault(shape.link, []).append(shape)
        self.massless = {f.body for f in extras.diagnosis if f.kind == "massless"}
        self.colors: dict[tuple[float, ...], int] = {}
        self.on_world = SpatialInertia()  # welded to the world and written with no other link
        self.lines: list[str] = []

    def text(self) -> str:
        links = self._links()
        roots = [link for link in links if link.parent == WORLD_NAME]
        base = roots[0] if len(roots) == 1 and _is_added_by_load(roots[0]) else None
        if base is not None and (WORLD_NAME in self.shapes or not self.on_world.is_zero):
            base = None
        self.lines = [
            '<?xml version="1.0" encoding="utf-8"?>',
            f"<robot name={_quoted(self.model.name or 'robot')}>",
        ]
        if base is None:
            self._write_link(WORLD_NAME, self.on_world)
        for link in links:
            self._write_link(link.name, link.inertia)
        for link in links:
            if link is not base:
                self._write_joint(link)
        return "\n".join([*self.lines, "</robot>", ""])

    def _links(self) -> list[Body]:
        """Every body and frame as a link: as the file had it where nothing was changed since."""
        model = self.model
        parts = {part.name: part for part in model.description.parts}
        bodies = {body.name: body for body in model.description.bodies}
        host, unchanged = self._unchanged(tuple(parts.values()), bodies)
        if WORLD_NAME not in unchanged:
            self.on_world = model.description.world_inertia
        links: dict[str, Body] = {}
        taken = set(model.joint_names)
        for name in dict.fromkeys([*parts, *bodies, *model.frames]):
            part, body = parts.get(name), bodies.get(name)
            kept = part is not None and host.get(name) in unchanged
            if part is not None and kept and (body is not None or part.joint.nv == 0):
                taken.add(part.joint_name)
                now = body or part
                links[name] = replace(part, limits=now.limits, damping=now.damping)
            elif body is not None:
                links[name] = body
            elif name in model.frames:
                at, pose = model.frames[name]
                parent = WORLD_NAME if at < 0 else model.body_names[at]
                joint_name = unused(part.joint_name if part else f"{name}_joint", taken)
                taken.add(joint_name)
                inertia = SpatialInertia()
                links[name] = Body(
                    name, parent, joints.Fixed(), pose, inertia, joint_name, (), (), None
                )
        return list(links.values())

    def _unchanged(
        self, parts: tuple[Body, ...], bodies: dict[str, Body]
    ) -> tuple[dict[str, str], set[str]]:
        """The body each part belongs to, and the bodies that are still what the parts make."""
        if not parts:
            return {}, set()
        again = weld(Description(parts, (), self.model.description.gravity))
        made = {body.name: body for body in again.bodies}
        host = {frame.name: frame.body for frame in again.frames}
        host |= {name: name for name in made}
        unchanged = {name for name, body in made.items() if bodies.get(name) == body}
        on_world = [frame for frame in again.frames if frame.body == WORLD_NAME]
        same_inertia = again.world_inertia == self.model.description.world_inertia
        if same_inertia and all(
            self.model.frames.get(f.name) == (-1, f.placement) for f in on_world
        ):
            unchanged.add(WORLD_NAME)
        return host, unchanged

    # ---------------------------------------------------------------- elements

    def _write_link(self, name: str, inertia: SpatialInertia) -> None:
        shapes = self.shapes.get(name, [])
        stated = not inertia.is_zero or name in self.massless
        if not shapes and not stated:
            self.lines.append(f"  <link name={_quoted(name)}/>")
            return
        self.lines.append(f"  <link name={_quoted(name)}>")
        if stated:
            J, names = inertia.moment_about_com_B, "xyz"
            pairs = [(i, j) for i in range(3) for j in range(i, 3)]
            self.lines += [
                "    <inertial>",
                f"      {_origin(Pose(translation=inertia.com_B))}",
                f"      {_tag('mass', value=inertia.mass)}",
                f"      {_tag('inertia', **{f'i{names[i]}{names[j]}': J[i, j] for i, j in pairs})}",
                "    </inertial>",
            ]
        for shape in shapes:
            self._write_shape(shape)
        self.lines.append("  </link>")

    def _write_shape(self, shape: LinkShape) -> None:
        name = f" name={_quoted(shape.name)}" if shape.name else ""
        self.lines += [
            f"    <{shape.role}{name}>",
            f"      {_origin(shape.placement)}",
            f"      <geometry>{_geometry(shape)}</geometry>",
        ]
        if shape.color:
            number = self.colors.setdefault(shape.color, len(self.colors) + 1)
            color = _tag("color", rgba=shape.color)
            self.lines.append(f'      <material name="color_{number}">{color}</material>')
        self.lines.append(f"    </{shape.role}>")

    def _write_joint(self, link: Body) -> None:
        properties, coupling = (
            self.joint_properties.get(link.joint_name),
            self.couplings.get(link.joint_name),
        )
        kind, axis = _urdf_type(link, properties)
        inner = [
            _origin(link.placement),
            _tag("parent", link=link.parent),
            _tag("child", link=link.name),
        ]
        if axis is not None:
            inner.append(_tag("axis", xyz=axis))
        if link.joint.nv:
            inner += _limits(link, kind, properties)
        if coupling is not None:
            multiplier, offset = coupling.multiplier, coupling.offset
            inner.append(_tag("mimic", joint=coupling.of, multiplier=multiplier, offset=offset))
        self.lines += [
            f'  <joint name={_quoted(link.joint_name)} type="{kind}">',
            *(f"    {line}" for line in inner),
            "  </joint>",
        ]


def _limits(link: Body, kind: str, properties: JointProperties | None) -> Iterator[str]:
    """The elements <limit> and <dynamics>, if they say anything."""
    bounds = {}
    if kind in ("revolute", "prismatic"):
        low, high = (0.0, 0.0) if properties else (-_UNBOUNDED, _UNBOUNDED)
        if link.limits is not None:
            (low,), (high,) = link.limits
        bounds = {"lower": low, "upper": high}
    effort, velocity = (properties.effort, properties.velocity) if properties else (np.inf, np.inf)
    if bounds or np.isfinite([effort, velocity]).any():
        yield _tag("limit", **bounds, effort=effort, velocity=velocity)
    damping = set(link.damping)
    if len(damping) > 1:
        raise ModelError(
            f"joint {link.joint_name!r}: URDF has one damping per joint, not {link.damping}."
        )
    friction = properties.friction if properties else 0.0
    if any(damping) or friction:
        yield _tag("dynamics", damping=max(damping, default=0.0), friction=friction)


def _urdf_type(
    link: Body, properties: JointProperties | None
) -> tuple[str, tuple[float, ...] | None]:
    """URDF's word for the joint, and its axis."""
    joint = link.joint
    arguments = joint.as_arguments()
    if joint.nv == 0:
        return "fixed", None
    if isinstance(joint, joints.Revolute):
        was_revolute = properties is not None and properties.source_type == "revolute"
        limited = link.limits is not None or was_revolute
        return "revolute" if limited else "continuous", arguments["axis"]
    if isinstance(joint, joints.Prismatic):
        return "prismatic", arguments["axis"]
    if isinstance(joint, joints.Free):
        return "floating", None
    if isinstance(joint, joints.Planar):
        normal = joint.params[:3]
        e1, e2 = plane_axes(normal)
        if np.allclose([*arguments["e1"], *arguments["e2"]], [*e1, *e2], rtol=0, atol=1e-9):
            return "planar", normal
        raise ModelError(
            f"joint {link.joint_name!r}: URDF states only the normal of a plane, and this joint's "
            f"axes e1, e2 are not those a reader would choose. Use Planar(e1={tuple(e1)}, "
            f"e2={tuple(e2)})."
        )
    raise ModelError(
        f"joint {link.joint_name!r}: URDF has no {joint.kind} joint. Build it of revolute and "
        "prismatic joints with massless bodies between, or store the model with model.to_dict()."
    )


def _is_added_by_load(root: Body) -> bool:
    added = root.joint_name.rstrip("_").endswith(ROOT_JOINT) and root.placement.is_identity
    return added and isinstance(root.joint, joints.Free | joints.Fixed)


def _geometry(shape: LinkShape) -> str:
    size = shape.size
    sizes = {
        "mesh": {"filename": shape.uri, "scale": size},
        "box": {"size": size},
        "sphere": {"radius": size},
        "cylinder": {"radius": size[:1], "length": size[1:]},
        "capsule": {"radius": size[:1], "length": size[1:]},
    }
    if shape.kind not in sizes:
        raise ModelError(
            f"link {shape.link!r}: URDF has no {shape.kind}. Replace the shape, or remove it."
        )
    return _tag(shape.kind, **sizes[shape.kind])


def _origin(pose: Pose) -> str:
    return _tag("origin", xyz=pose.translation.tolist(), rpy=rpy_of_rotation(pose.rotation))


def _tag(name: str, **attributes: Any) -> str:
    """An element without children; the values are texts, numbers or sequences of numbers."""
    return f"<{name} {' '.join(f'{key}={_quoted(x)}' for key, x in attributes.items())}/>"


def _quoted(value: Any) -> str:
    if not isinstance(value, str):
        return f'"{" ".join(map(_number, np.ravel(value).tolist()))}"'
    if _UNWRITABLE.search(value):
        raise ModelError(f"the name {value!r} has a character that XML cannot hold. Rename it.")
    from xml.sax.saxutils import quoteattr

    return quoteattr(value)


def _number(value: float) -> str:
    if not np.isfinite(value):
        value = float(np.copysign(_UNBOUNDED, value))
    return repr(value + 0.0)
