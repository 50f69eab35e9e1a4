"""`save_urdf`: write a model as a URDF file.

Links that were welded when the model was loaded are written as the links they were, with their own
inertias, unless the body they are part of was changed since; then the body carries the whole
inertia and they are written without mass.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from phipsi.errors import ModelError, warn
from phipsi.interfaces.formats.files import unused
from phipsi.interfaces.formats.parsed_robot import ROOT_JOINT, mimicry
from phipsi.model import Model, Pose, SpatialInertia, joints
from phipsi.model.assemble import weld
from phipsi.model.body import WORLD_NAME, Body, Description
from phipsi.model.extras import Coupling, Rating, Shape
from phipsi.model.mechanisms import of_trees, tree_of
from phipsi.model.rotations import plane_axes, rpy_of_rotation

_UNBOUNDED = 1.7976931348623157e308
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_GRAVITY = (0.0, 0.0, -9.81)


@of_trees("URDF describes trees only, and its file would be that of another mechanism")
def save_urdf(model: Model, path: str | os.PathLike[str] | None = None) -> str:
    """Write a model as URDF and return the text.

    **Arguments:** `path`, where to write it; None only returns the text. A base on the free joint
    that ``load(path, base="free")`` added is written as the base link: load it the same way again.
    Joints that mimic others, as `load` reads them, are written as such; other constraints are
    rejected. What URDF cannot say is a `ModelError` (joint types it lacks) or one `PhipsiWarning`
    (armature, gravity other than 9.81 m/s² along −z).
    """
    mimics = {mimicry(coupling) for coupling in getattr(model, "couplings", ())}
    only_mimics = mimics and mimics.issuperset(model.constraints)
    model = model.model if only_mimics else tree_of(model, save_urdf)
    _warn_of_losses(model)
    text = _Writer(model).text()
    if path is not None:
        name = os.fspath(path)
        temporary = f"{name}.{os.getpid()}.part"
        try:
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(temporary, name)
        finally:  # on a full disk nothing stays
            Path(temporary).unlink(missing_ok=True)
    return text


def _warn_of_losses(model: Model) -> None:
    lost: list[str] = []
    turning = [
        n
        for n, b in zip(model.joint_names, model.description.bodies, strict=True)
        if any(b.armature)
    ]
    if turning:
        lost.append(f"the armature of {len(turning)} joint(s), for example {turning[0]!r}")
    if tuple(model.gravity.tolist()) != _GRAVITY:
        lost.append(f"gravity {tuple(model.gravity.tolist())}")
    if lost:
        warn(f"URDF cannot say {' and '.join(lost)}; they are left out.")


@final
@dataclass(frozen=True)
class _Link:
    """One link to write, with the joint that attaches it to its parent."""

    name: str
    parent: str
    joint_name: str
    joint: joints.Joint
    placement: Pose
    inertia: SpatialInertia
    body: Body | None = None


def _link_of(stated: Body, body: Body | None) -> _Link:
    return _Link(
        stated.name,
        stated.parent,
        stated.joint_name,
        stated.joint,
        stated.placement,
        stated.inertia,
        body,
    )


@final
class _Writer:
    def __init__(self, model: Model) -> None:
        self.model = model
        extras = model.description.extras
        self.couplings: dict[str, Coupling] = {c.joint: c for c in extras.couplings}
        self.ratings: dict[str, Rating] = {r.joint: r for r in extras.ratings}
        self.shapes: dict[str, list[Shape]] = {}
        for shape in extras.geometry:
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

    def _links(self) -> list[_Link]:
        """Every body and frame as a link: as the file had it where nothing was changed since."""
        model = self.model
        parts = {part.name: part for part in model.description.parts}
        bodies = {body.name: body for body in model.description.bodies}
        host, unchanged = self._unchanged(tuple(parts.values()), bodies)
        if WORLD_NAME not in unchanged:
            self.on_world = model.description.world_inertia
        links: dict[str, _Link] = {}
        taken = set(model.joint_names)

        def as_frame(name: str) -> _Link:
            at, pose = model.frames[name]
            parent = WORLD_NAME if at < 0 else model.body_names[at]
            joint_name = parts[name].joint_name if name in parts else f"{name}_joint"
            taken.add(joint_name := unused(joint_name, taken))
            return _Link(name, parent, joint_name, joints.Fixed(), pose, SpatialInertia())

        for name in [*parts, *bodies, *model.frames]:
            if name in links:
                continue
            part, body = parts.get(name), bodies.get(name)
            kept = part is not None and host.get(name) in unchanged
            if part is not None and kept and (body is not None or part.joint.nv == 0):
                taken.add(part.joint_name)
                links[name] = _link_of(part, body)
            elif body is not None:
                links[name] = _link_of(body, body)
            elif name in model.frames:
                links[name] = as_frame(name)
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
            J = inertia.moment_about_com_B
            moments = " ".join(
                f'i{"xyz"[i]}{"xyz"[j]}="{_number(J[i, j])}"' for i in range(3) for j in range(i, 3)
            )
            self.lines += [
                "    <inertial>",
                f"      {_origin(Pose(translation=inertia.com_B))}",
                f'      <mass value="{_number(inertia.mass)}"/>',
                f"      <inertia {moments}/>",
                "    </inertial>",
            ]
        for shape in shapes:
            self._write_shape(shape)
        self.lines.append("  </link>")

    def _write_shape(self, shape: Shape) -> None:
        name = f" name={_quoted(shape.name)}" if shape.name else ""
        self.lines += [
            f"    <{shape.role}{name}>",
            f"      {_origin(shape.placement)}",
            f"      <geometry>{_geometry(shape)}</geometry>",
        ]
        if shape.color:
            rgba = " ".join(map(_number, shape.color))
            number = self.colors.setdefault(shape.color, len(self.colors) + 1)
            color = f'<color rgba="{rgba}"/>'
            self.lines.append(f'      <material name="color_{number}">{color}</material>')
        self.lines.append(f"    </{shape.role}>")

    def _write_joint(self, link: _Link) -> None:
        joint, rating = link.joint, self.ratings.get(link.joint_name)
        kind, axis = _urdf_type(link, rating)
        self.lines += [
            f'  <joint name={_quoted(link.joint_name)} type="{kind}">',
            f"    {_origin(link.placement)}",
            f"    <parent link={_quoted(link.parent)}/>",
            f"    <child link={_quoted(link.name)}/>",
        ]
        if axis is not None:
            self.lines.append(f'    <axis xyz="{" ".join(map(_number, axis))}"/>')
        if joint.nv:
            self._write_limits(link, kind, rating)
        coupling = self.couplings.get(link.joint_name)
        if coupling is not None:
            self.lines.append(
                f"    <mimic joint={_quoted(coupling.of)} "
                f'multiplier="{_number(coupling.multiplier)}" '
                f'offset="{_number(coupling.offset)}"/>'
            )
        self.lines.append("  </joint>")

    def _write_limits(self, link: _Link, kind: str, rating: Rating | None) -> None:
        body = link.body
        bounds = ""
        if kind in ("revolute", "prismatic"):
            low, high = (0.0, 0.0) if rating else (-_UNBOUNDED, _UNBOUNDED)
            if body is not None and body.limits is not None:
                (low,), (high,) = body.limits
            bounds = f'lower="{_number(low)}" upper="{_number(high)}" '
        effort, velocity = (rating.effort, rating.velocity) if rating else (np.inf, np.inf)
        if bounds or np.isfinite([effort, velocity]).any():
            self.lines.append(
                f'    <limit {bounds}effort="{_number(effort)}" velocity="{_number(velocity)}"/>'
            )
        damping = set(body.damping) if body is not None else set()
        if len(damping) > 1:
            raise ModelError(
                f"joint {link.joint_name!r}: URDF has one damping per joint, not "
                f"{body and body.damping}."
            )
        friction = rating.friction if rating else 0.0
        if any(damping) or friction:
            self.lines.append(
                f'    <dynamics damping="{_number(max(damping, default=0.0))}" '
                f'friction="{_number(friction)}"/>'
            )


def _urdf_type(link: _Link, rating: Rating | None) -> tuple[str, tuple[float, ...] | None]:
    """URDF's word for the joint, and its axis."""
    joint = link.joint
    arguments = joint.as_arguments()
    if joint.nv == 0:
        return "fixed", None
    if isinstance(joint, joints.Revolute):
        limited = link.body is not None and link.body.limits is not None
        was_revolute = rating is not None and rating.source_type == "revolute"
        return "revolute" if limited or was_revolute else "continuous", arguments["axis"]
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


def _is_added_by_load(root: _Link) -> bool:
    made = root.joint_name.rstrip("_").endswith(ROOT_JOINT) and root.placement.is_identity
    return made and isinstance(root.joint, joints.Free | joints.Fixed)


def _geometry(shape: Shape) -> str:
    numbers = " ".join(map(_number, shape.size))
    if shape.kind == "mesh":
        return f'<mesh filename={_quoted(shape.uri)} scale="{numbers}"/>'
    if shape.kind == "box":
        return f'<box size="{numbers}"/>'
    if shape.kind == "sphere":
        return f'<sphere radius="{numbers}"/>'
    if shape.kind in ("cylinder", "capsule"):
        radius, length = map(_number, shape.size)
        return f'<{shape.kind} radius="{radius}" length="{length}"/>'
    raise ModelError(
        f"link {shape.link!r}: URDF has no {shape.kind}. Replace the shape, or leave it out."
    )


def _origin(pose: Pose) -> str:
    xyz = " ".join(map(_number, pose.translation.tolist()))
    rpy = " ".join(map(_number, rpy_of_rotation(pose.rotation)))
    return f'<origin xyz="{xyz}" rpy="{rpy}"/>'


def _number(value: float) -> str:
    value = float(value)
    if not np.isfinite(value):
        value = float(np.copysign(_UNBOUNDED, value))
    return repr(value + 0.0)


def _quoted(text: str) -> str:
    if _UNWRITABLE.search(text):
        raise ModelError(f"the name {text!r} has a character that XML cannot hold. Rename it.")
    from xml.sax.saxutils import quoteattr

    return quoteattr(text)
