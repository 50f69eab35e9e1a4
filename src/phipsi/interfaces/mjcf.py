"""MJCF, by way of MuJoCo's own compiler: defaults, frames, inertia from geoms are MuJoCo's.

    pip install "phipsi[mjcf]"
    model = pp.load("robot.xml")

A body with several joints gets a composite joint when the joints share their anchor, and else one
massless body per joint but the last, which moves in the same way with the same rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, final

import numpy as np

from phipsi.constraints import Constraint
from phipsi.errors import ModelError
from phipsi.interfaces.anchors import frame_name, in_body, moved_inertia
from phipsi.interfaces.document import Element, shortened
from phipsi.interfaces.draft import GROUND, Connection, Draft, Link
from phipsi.interfaces.files import Place
from phipsi.interfaces.mjcf_compile import Compiled, compiled_model
from phipsi.interfaces.mjcf_equality import equality
from phipsi.interfaces.mjcf_files import MjcfFiles, read_mjcf_files
from phipsi.interfaces.mjcf_joints import FREE_WITH_ARMATURE, Chain, chain_of, is_free
from phipsi.interfaces.mjcf_shapes import shapes_of
from phipsi.interfaces.options import Base, Options
from phipsi.interfaces.roots import Roots
from phipsi.model import Model, Pose, SpatialInertia, joints
from phipsi.model.body import WORLD_NAME, Frame
from phipsi.model.extras import Rating


def read_mjcf(
    data: bytes, file: str, roots: Roots, options: Options
) -> tuple[Model, list[Constraint]]:
    """Make a model, and constraints if they are wanted, of the bytes of an MJCF file."""
    found = read_mjcf_files(data, file, roots)
    compiled = compiled_model(found, options)
    draft = _Reader(found, compiled, options).read()
    for remark in compiled.remarks:
        draft.note("mujoco", "<mujoco>", "", f"MuJoCo says: {remark}.", found.root)
    return draft.finish(options, "fixed"), draft.constraints


@final
class _Reader:
    def __init__(self, found: MjcfFiles, compiled: Compiled, options: Options) -> None:
        self.found, self.m, self.options = found, compiled, options
        name, gravity = found.root.attributes.get("model", ""), tuple(compiled.gravity.tolist())
        self.draft = Draft(found.root, name, "body", gravity, deadline=options.deadline)
        self.stated: dict[tuple[str, str], Element] = {}
        for element in found.elements():
            self.stated.setdefault((element.tag, element.name), element)
        self.names: dict[int, str] = {}
        self.shifts: dict[int, np.ndarray] = {0: np.zeros(3)}

    def read(self) -> Draft:
        if not self.options.loops:
            self._refuse_constraints()
        taken = {self.m.names["body"][i] for i in range(1, self.m.nbody)}
        for i in range(1, self.m.nbody):
            name = self.m.names["body"][i]
            if not name:  # those that have a name have one of their own
                name = f"body{i}"
                while name in taken:
                    name += "_"
                taken.add(name)
            self.names[i] = name
        for i in range(1, self.m.nbody):
            self._body(i)
        self._apply_base(self.options.base)
        self._note_free_joints()
        self._frames()
        self.draft.shapes.extend(shapes_of(self.m, self.found, self.names, self.shifts))
        self._note_what_is_left_out()
        if self.options.loops:
            self._constraints()
        return self.draft

    def _at(self, tag: str, name: str) -> Place:
        """Where an element with a name is stated; the whole file for one without."""
        return self.stated.get((tag, name), self.found.root) if name else self.found.root

    # ---------------------------------------------------------------- bodies and joints

    def _body(self, i: int) -> None:
        m, name = self.m, self.names[i]
        at = self._at("body", name)
        parent = int(m.body_parentid[i])
        X_link = Pose(_unit(m.body_quat[i]), m.body_pos[i])
        rows = range(int(m.body_jntadr[i]), int(m.body_jntadr[i]) + int(m.body_jntnum[i]))
        try:
            chain = chain_of(m, rows, name)
            inertia = SpatialInertia(float(m.body_mass[i]), (0, 0, 0), m.body_inertia[i])
            inertia = inertia.transformed(Pose(_unit(m.body_iquat[i]), m.body_ipos[i]))
            inertia = moved_inertia(inertia, chain.shift)
        except ModelError as error:
            raise self.draft.error(at, f"body {shortened(name)}", str(error)) from error
        self.shifts[i] = chain.shift
        has_mass = bool(inertia.mass) or bool(inertia.given_moment_B.any())
        link = Link(name, at, inertia, has_inertia=has_mass)
        outer = GROUND if parent == 0 else self.names[parent]
        placement = in_body(self.shifts[parent]) @ X_link
        self._connect(chain, name, outer, placement, at)
        self.draft.add_link(link)

    def _connect(self, chain: Chain, name: str, outer: str, placement: Pose, at: Place) -> None:
        for k, step in enumerate(chain.steps):
            is_last = k == len(chain.steps) - 1
            child = name if is_last else f"{name}/{step.name}"
            if not is_last:
                self.draft.add_link(Link(child, at, is_internal=True))
            self.draft.add_joint(
                Connection(
                    step.name,
                    self._at("joint", step.first) if step.first else at,
                    outer,
                    child,
                    step.joint,
                    placement @ step.placement,
                    step.limits,
                    step.damping,
                    step.armature,
                )
            )
            if step.joint.nv:
                self.draft.ratings.append(
                    Rating(step.name, step.words, step.effort, math.inf, step.friction)
                )
            outer, placement = child, Pose()

    def _apply_base(self, base: Base | None) -> None:
        """`base=` against what the file says about its outermost bodies."""
        outermost = [joint for joint in self.draft.joints.values() if joint.parent == GROUND]
        if base == "fixed":
            for joint in outermost:
                if is_free(joint.joint):
                    joint.joint, joint.damping, joint.armature = joints.Fixed(), 0.0, 0.0
        elif base == "free":
            welded = [joint for joint in outermost if isinstance(joint.joint, joints.Fixed)]
            if len(outermost) == 1 and welded:
                welded[0].joint, welded[0].damping, welded[0].armature = joints.Free(), 0.0, 0.0
            elif not any(is_free(joint.joint) for joint in outermost):
                raise self.draft.error(
                    self.draft.root,
                    "<worldbody>",
                    'base="free" needs one outermost body '
                    f"without joints, but there are {len(outermost)} outermost bodies. Add "
                    "<freejoint/> to the right one.",
                )

    def _note_free_joints(self) -> None:
        for joint in self.draft.joints.values():
            if joint.joint == FREE_WITH_ARMATURE:
                self.draft.note(
                    "free",
                    f"joint {shortened(joint.name)}",
                    joint.name,
                    "MuJoCo adds the armature of a free joint to rates in world axes, so it is "
                    "read as a translation and a ball joint, which move in the same way: "
                    "q = [position, quaternion], v = [linear in the axes of the body's pose in the "
                    "file, angular in body axes]. Without armature it is a free joint.",
                    joint.at,
                )

    # ---------------------------------------------------------------- frames and the rest

    def _frames(self) -> None:
        m, draft = self.m, self.draft
        taken = set(self.names.values())
        sites = set(m.names["site"])
        used = taken | sites
        for i, shift in self.shifts.items():
            if i and shift.any():
                name = frame_name(self.names[i], used)
                taken.add(name)
                draft.frames.append(Frame(name, self.names[i], in_body(shift)))
        for k in range(m.nsite):
            name = m.names["site"][k]
            if not name:
                continue
            if name in taken or name == "world":
                new = f"{name}_site"
                while new in taken or new in sites:
                    new += "_"
                draft.note(
                    "renamed",
                    f"site {shortened(name)}",
                    new,
                    f"a body has this name; it is {new!r} here.",
                    self._at("site", name),
                )
                name = new
            taken.add(name)
            host = int(m.site_bodyid[k])
            X = in_body(self.shifts[host]) @ Pose(_unit(m.site_quat[k]), m.site_pos[k])
            body = "world" if host == 0 else self.names[host]
            draft.frames.append(Frame(name, body, X))

    def _active_constraints(self) -> Iterator[tuple[int, str, Element]]:
        """Number, name and place of every equality constraint that acts."""
        m = self.m
        stated = [
            child
            for element in self.found.elements()
            if element.tag == "equality"
            for child in element.children
        ]
        by_name = {each.name: each for each in reversed(stated) if each.name}
        for k in range(m.neq):
            if not m.eq_active0[k]:
                continue
            name = m.names["equality"][k]
            at = stated[k] if k < len(stated) else self.found.root
            yield k, name, by_name.get(name, at)

    def _refuse_constraints(self) -> None:
        for _, _, at in self._active_constraints():
            raise at.error(
                "this constraint ties motions together, which a tree cannot. Load it as a system:"
                "\n    pp.load_system(path)\n"
                'To load without it, delete the line or write active="false".',
                f"equality {at.label}",
            )

    def _constraints(self) -> None:
        taken = {name for _, name, _ in self._active_constraints()}
        for k, name, at in self._active_constraints():
            if not name:
                name = f"equality{k + 1}"
                while name in taken:
                    name += "_"
                taken.add(name)
            try:
                found = equality(self.m, k, name, self._link_end, self._joint_name)
            except ModelError as error:
                raise at.error(str(error), f"equality {at.label}") from error
            self.draft.constraints.append(found)

    def _link_end(self, body: int, X: Pose) -> tuple[str, Pose]:
        """A pose in the frame of MuJoCo's body, as an end on ours."""
        if body == 0:
            return WORLD_NAME, X
        return self.names[body], in_body(self.shifts[body]) @ X

    def _joint_name(self, k: int) -> str:
        body = int(self.m.jnt_bodyid[k])
        place = k - int(self.m.body_jntadr[body]) + 1
        name = self.m.names["joint"][k] or f"{self.names[body]}_joint{place}"
        if name not in self.draft.joints:
            raise ModelError(
                f"joint {shortened(name)} is one of several joints of body "
                f"{shortened(self.names[body])} that share an anchor and are one joint here, so it "
                "has no coordinate of its own to be tied. Put a body between the joints."
            )
        return name

    def _note_what_is_left_out(self) -> None:
        m = self.m
        for k in range(m.njnt):
            name = m.names["joint"][k]
            if np.any(m.jnt_stiffness[k]):
                self._left_out("joint", name, "its spring")
        for k in range(m.ntendon):
            name = m.names["tendon"][k]
            acts = any(
                np.any(getattr(m, f"tendon_{what}")[k])
                for what in ("stiffness", "damping", "frictionloss")
            )
            self._left_out("tendon", name, "it", acts)
        for i in range(1, m.nbody):
            if m.body_gravcomp[i]:
                self._left_out("body", self.names[i], "gravity compensation")
            if m.body_mocapid[i] >= 0:
                message = "a mocap body is fixed in the world here."
                self.draft.note(
                    "ignored",
                    f"body {shortened(self.names[i])}",
                    self.names[i],
                    message,
                    self._at("body", self.names[i]),
                )
        if m.fluid.any():
            self._left_out("option", "", "the fluid (density, viscosity)")
        if m.nu:
            self._left_out("actuator", "", f"{m.nu} actuator(s)", False)

    def _left_out(self, tag: str, name: str, what: str, is_problem: bool = True) -> None:
        who = f"{tag} {shortened(name)}" if name else f"<{tag}>"
        message = f"{what} is not part of the model and is left out."
        self.draft.note("ignored", who, name, message, self._at(tag, name), is_problem)


def _unit(quaternion: Any) -> np.ndarray:
    values = np.asarray(quaternion, dtype=np.float64)
    return values / np.linalg.norm(values)
