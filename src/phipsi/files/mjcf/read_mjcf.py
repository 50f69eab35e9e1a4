"""MJCF, by way of MuJoCo's own compiler: defaults, frames, inertia from geoms are MuJoCo's.

    pip install "phipsi[mjcf]"
    model = pp.load("robot.xml")

A body with several joints gets a composite joint when the joints share their anchor, and else one
massless body per joint but the last, which moves in the same way with the same rates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from phipsi import constraints as c
from phipsi.core.model import WORLD_NAME, Frame, Pose, SpatialInertia, joints
from phipsi.errors import FileError, ModelError, PhipsiError
from phipsi.files.allowed_folders import AllowedFolders
from phipsi.files.body_frames import add_link_frames, in_body
from phipsi.files.files import SourceLocation, attributed_to, unused
from phipsi.files.load import Base, LoadOptions
from phipsi.files.mjcf.checked_files import MjcfFiles, located_error, read_mjcf_files
from phipsi.files.mjcf.geom_shapes import exclusions_of, pairs_of, pose_of, shapes_of
from phipsi.files.mjcf.joint_chains import FREE_WITH_ARMATURE, Chain, chain_of, is_free
from phipsi.files.mjcf.mjcf_left_out import note_what_is_left_out
from phipsi.files.mjcf.mujoco_arrays import NAMED, Arrays, compiled, unpacked
from phipsi.files.mjcf.mujoco_text import text_for_mujoco
from phipsi.files.parsed_robot import GROUND, Connection, Link, ParsedRobot
from phipsi.files.xml_document import XMLElement, shortened
from phipsi.support import Ended, LimitedProcess, NotStarted, TooSlow


def read_mjcf(
    data: bytes, file: str, folders: AllowedFolders, options: LoadOptions
) -> tuple[ParsedRobot, Base]:
    """Parse the bytes of a MJCF file; also what its base is if the caller does not say."""
    found = read_mjcf_files(data, file, folders)
    compiled = compiled_model(found, options)
    robot = _MJCFReader(found, compiled, options).read()
    for remark in compiled.remarks:
        robot.note("mujoco", "<mujoco>", "", f"MuJoCo says: {remark}.", found.root)
    return robot, "fixed"


@final
class _MJCFReader:
    def __init__(self, found: MjcfFiles, compiled: Compiled, options: LoadOptions) -> None:
        self.found, self.m, self.options = found, compiled, options
        name, gravity = found.root.attributes.get("model", ""), tuple(compiled.gravity.tolist())
        self.robot = ParsedRobot(found.root, name, "body", gravity, deadline=options.deadline)
        self.stated: dict[tuple[str, str], XMLElement] = {}
        for element in found.elements():
            self.stated.setdefault((element.tag, element.name), element)
        self.names = {0: WORLD_NAME}
        self.shifts: dict[int, np.ndarray] = {0: np.zeros(3)}
        self.references = dict[str, float]()

    def read(self) -> ParsedRobot:
        taken = {self.m.names["body"][i] for i in range(1, self.m.nbody)}
        for i in range(1, self.m.nbody):  # those that have a name have one of their own
            self.names[i] = self.m.names["body"][i] or unused(f"body{i}", taken)
            taken.add(self.names[i])
        for i in range(1, self.m.nbody):
            self._body(i)
        self._apply_base(self.options.base)
        self._note_free_joints()
        self._note_references()
        self._frames()
        self.robot.shapes.extend(shapes_of(self.m, self.found, self.names, self.shifts))
        self.robot.exclusions.extend(exclusions_of(self.m, self.names))
        self.robot.pairs.extend(pairs_of(self.m))
        note_what_is_left_out(self.m, self.robot, self.found, self.names)
        self._constraints()
        return self.robot

    def _at(self, tag: str, name: str) -> SourceLocation:
        """Where an element with a name is stated; the whole file for one without."""
        return self.stated.get((tag, name), self.found.root) if name else self.found.root

    # ---------------------------------------------------------------- bodies and joints

    def _body(self, i: int) -> None:
        m, name = self.m, self.names[i]
        at = self._at("body", name)
        parent = int(m.body_parentid[i])
        X_link = pose_of(m.body_quat[i], m.body_pos[i])
        rows = range(int(m.body_jntadr[i]), int(m.body_jntadr[i]) + int(m.body_jntnum[i]))
        with attributed_to(at, f"body {shortened(name)}"):
            chain = chain_of(m, rows, name)
            inertia = SpatialInertia(float(m.body_mass[i]), (0, 0, 0), m.body_inertia[i])
            inertia = inertia.transformed(pose_of(m.body_iquat[i], m.body_ipos[i]))
            inertia = inertia.transformed(in_body(chain.shift))
        self.shifts[i] = chain.shift
        has_mass = bool(inertia.mass) or bool(inertia.given_moment_B.any())
        link = Link(name, at, inertia, has_inertia=has_mass)
        outer = GROUND if parent == 0 else self.names[parent]
        placement = in_body(self.shifts[parent]) @ X_link
        self._connect(chain, name, outer, placement, at)
        self.robot.add_link(link)

    def _connect(
        self, chain: Chain, name: str, outer: str, placement: Pose, at: SourceLocation
    ) -> None:
        for k, step in enumerate(chain.steps):
            is_last = k == len(chain.steps) - 1
            child = name if is_last else f"{name}/{step.name}"
            if not is_last:
                self.robot.add_link(Link(child, at, is_internal=True))
            self.robot.add_joint(
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
            if step.ref:
                self.references[step.name] = step.ref
            if step.joint.nv:
                self.robot.joint_properties.append(step.joint_properties())
            outer, placement = child, Pose()

    def _apply_base(self, base: Base | None) -> None:
        """`base=` against what the file says about its outermost bodies."""
        outermost = [joint for joint in self.robot.joints.values() if joint.parent == GROUND]
        if base == "fixed":
            for joint in outermost:
                if is_free(joint.joint):
                    joint.joint, joint.damping, joint.armature = joints.Fixed(), 0.0, 0.0
        elif base == "free":
            welded = [joint for joint in outermost if isinstance(joint.joint, joints.Fixed)]
            if len(outermost) == 1 and welded:
                welded[0].joint, welded[0].damping, welded[0].armature = joints.Free(), 0.0, 0.0
            elif not any(is_free(joint.joint) for joint in outermost):
                raise self.robot.error(
                    self.robot.root,
                    "<worldbody>",
                    'base="free" needs one outermost body '
                    f"without joints, but there are {len(outermost)} outermost bodies. Add "
                    "<freejoint/> to the right one.",
                )

    def _note_free_joints(self) -> None:
        for joint in self.robot.joints.values():
            if joint.joint == FREE_WITH_ARMATURE:
                self.robot.note(
                    "free",
                    f"joint {shortened(joint.name)}",
                    joint.name,
                    "MuJoCo adds the armature of a free joint to rates in world axes, so it is "
                    "read as a translation and a ball joint, which move in the same way: "
                    "q = [position, quaternion], v = [linear in the axes of the body's pose in the "
                    "file, angular in body axes]. Without armature it is a free joint.",
                    joint.at,
                )

    def _note_references(self) -> None:
        """Joints whose coordinate is not 0 where the file draws them."""
        for name, at in self.references.items():
            self.robot.note(
                "ref",
                f"joint {shortened(name)}",
                name,
                "coordinates are measured as in MuJoCo, from its ref: in the pose of the file "
                f"(qpos0) it is at {at:.6g}, and in model.neutral() at 0. For the former:\n"
                f"    q = model.neutral(); q[model.q_slice({name!r})] = {at!r}",
                self._at("joint", name),
                numbers=(at,),
            )

    # ---------------------------------------------------------------- frames and the rest

    def _frames(self) -> None:
        m, robot = self.m, self.robot
        taken, sites = set(self.names.values()), set(m.names["site"])
        shifts = {self.names[i]: shift for i, shift in self.shifts.items()}
        add_link_frames(robot, shifts, taken | sites)
        taken.update(frame.name for frame in robot.frames)
        for k in range(m.nsite):
            name = m.names["site"][k]
            if not name:
                continue
            if name in taken:
                new = unused(f"{name}_site", taken | sites)
                robot.note(
                    "renamed",
                    f"site {shortened(name)}",
                    new,
                    f"a body has this name; it is {new!r} here.",
                    self._at("site", name),
                )
                name = new
            taken.add(name)
            host = int(m.site_bodyid[k])
            X = in_body(self.shifts[host]) @ pose_of(m.site_quat[k], m.site_pos[k])
            robot.frames.append(Frame(name, self.names[host], X))

    def _active_constraints(self) -> Iterator[tuple[int, str, XMLElement]]:
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

    def _constraints(self) -> None:
        taken = {name for _, name, _ in self._active_constraints()}
        for k, name, at in self._active_constraints():
            if not self.options.closes_loops:
                message = 'it ties motions together and is left out (loops="cut").'
                self.robot.note("loop", f"equality {at.label}", name, message, at, True)
                continue
            taken.add(name := name or unused(f"equality{k + 1}", taken))
            with attributed_to(at, f"equality {at.label}"):
                found = equality(self.m, k, name, self._link_end, self._joint_name)
            self.robot.constraints.append(found)

    def _link_end(self, body: int, X: Pose) -> tuple[str, Pose]:
        """A pose in the frame of MuJoCo's body, as an end on ours."""
        return self.names[body], in_body(self.shifts[body]) @ X

    def _joint_name(self, k: int) -> str:
        body = int(self.m.jnt_bodyid[k])
        place = k - int(self.m.body_jntadr[body]) + 1
        name = self.m.names["joint"][k] or f"{self.names[body]}_joint{place}"
        if name not in self.robot.joints:
            raise ModelError(
                f"joint {shortened(name)} is one of several joints of body "
                f"{shortened(self.names[body])} that share an anchor and are one joint here, so it "
                "has no coordinate of its own to be tied. Put a body between the joints."
            )
        return name


# ---- equality constraints: connect, weld and joint -----------------------------------------------

_CONNECT, _WELD, _JOINT = 0, 1, 2
_WORDS = {3: "tendon", 4: "flex", 5: "flexvert", 6: "flexstrain"}

LinkEnd = Callable[[int, Pose], tuple[str, Pose]]


def equality(m: Any, k: int, name: str, end: LinkEnd, joint_name: Callable[[int], str]) -> Any:
    """Constraint k of the compiled model `m`, or a `ModelError` that says why it cannot be one.

    `end(i, X)` is the end at the pose X in the link frame of MuJoCo's body i; `joint_name(j)` the
    name of its joint j.
    """
    kind, data = int(m.eq_type[k]), np.asarray(m.eq_data[k], dtype=np.float64)
    ids = (int(m.eq_obj1id[k]), int(m.eq_obj2id[k]))
    if kind == _JOINT:
        return _coupling(m, name, ids, data, joint_name)
    if kind not in (_CONNECT, _WELD):
        raise ModelError(
            f"a constraint on a {_WORDS.get(kind, kind)} is not read; bodies and joints can be "
            "tied together. Delete it, or write what it does as pp.constraints."
        )
    if m.eq_on_sites[k]:
        hosts, places = zip(*(_site(m, i) for i in ids), strict=True)
    elif kind == _CONNECT:
        hosts, places = ids, (Pose(translation=data[0:3]), Pose(translation=data[3:6]))
    else:  # pose of body 2 in body 1, about an anchor that is given in body 2
        hosts = ids
        places = (pose_of(data[6:10], data[3:6]), Pose(translation=data[0:3]))
    a, b = (end(int(i), X) for i, X in zip(hosts, places, strict=True))
    return (c.Spherical if kind == _CONNECT else c.Weld)(name=name, a=a, b=b)


def _coupling(
    m: Any, name: str, ids: tuple[int, int], data: np.ndarray, joint_name: Callable[[int], str]
) -> c.Coupling:
    """q1 − ref1 = c0 + c1 (q2 − ref2); higher powers are rejected."""
    first, second = ids
    constant, factor = float(data[0]), float(data[1])
    if second >= 0 and np.any(data[2:5]):
        raise ModelError(
            f"its polynomial {data[:5].tolist()} is not linear. A coupling of ours is a linear "
            "relation between coordinates; use polycoef with two numbers."
        )
    ref = [float(m.qpos0[int(m.jnt_qposadr[i])]) for i in ids if i >= 0]
    named, coefficients, offset = (joint_name(first),), (1.0,), ref[0] + constant
    if second >= 0 and factor != 0:
        named, coefficients = (*named, joint_name(second)), (1.0, -factor)
        offset -= factor * ref[1]
    return c.Coupling(name=name, joints=named, coefficients=coefficients, offset=offset)


def _site(m: Any, k: int) -> tuple[int, Pose]:
    return int(m.site_bodyid[k]), pose_of(m.site_quat[k], m.site_pos[k])


# ---- MuJoCo's compiler, in a process of its own unless isolate=False -----------------------------

READERS = LimitedProcess("phipsi.files.mjcf.worker")
_HERE = "If you trust the file, read it in this process:\n    pp.load({file!r}, isolate=False)"


@final
class Compiled:
    """What is read off a compiled model: arrays by MuJoCo's names, names, and MuJoCo's remarks.

    `names` has a list for each word of `mujoco_arrays.NAMED`; "" is a name that was not given;
    `disabled`, the flags that the file switches off (their arrays are zero).
    """

    def __init__(self, head: dict[str, Any], arrays: Arrays) -> None:
        self.__dict__.update(arrays)
        self.names: dict[str, list[str]] = head["names"]
        self.remarks: list[str] = head["remarks"]
        self.disabled: list[str] = head["disabled"]
        self.nbody, self.njnt, self.nsite, self.ngeom, _, self.ntendon, self.neq, self.nu = (
            len(self.names[word]) for word in list(NAMED)[:8]
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} is not among the arrays that mujoco_arrays.py reads")


def compiled_model(found: MjcfFiles, options: LoadOptions) -> Compiled:
    """The model that MuJoCo compiles from a file, or a FileError."""
    text = text_for_mujoco(found.root, True, found.fields)
    includes = {
        name: text_for_mujoco(e, False, found.fields).encode() for name, e in found.includes.items()
    }
    if options.isolate:
        head, arrays = _from_process(found, text, includes, options)
    else:
        head, arrays = compiled(text, includes, found.assets)
    if "failure" in head:
        raise _failure(found, head["failure"], head["message"], options)
    return Compiled(head, arrays)


def _from_process(
    found: MjcfFiles, text: str, includes: dict[str, bytes], options: LoadOptions
) -> tuple[dict[str, Any], Arrays]:
    request = {
        "includes": list(includes),
        "assets": list(found.assets),
        "seconds": options.max_seconds,
        "memory": options.max_memory,
    }
    blobs = [text.encode(), *includes.values(), *found.assets.values()]
    here = _HERE.format(file=found.file)
    try:
        head, answer = READERS.ask(request, blobs, options.max_seconds)
        return head, {} if "failure" in head else unpacked(head["arrays"], answer)
    except NotStarted as error:
        reason = (
            "MuJoCo's reader runs in a process of its own, so that no fault in it can harm "
            f"yours, and that process could not be started: {error}. {here}"
        )
    except TooSlow:
        reason = (
            f"MuJoCo needs more than {options.max_seconds:g} s for it. If it is right, give it "
            f"more:\n    pp.load({found.file!r}, max_seconds={10 * options.max_seconds:g})"
        )
    except Ended as error:
        reason = (
            f"MuJoCo's reader ended with {error} at this file. Your own process is not affected, "
            "and other files can be read. It is a fault of MuJoCo's, or the file needs more memory "
            f"than max_memory={options.max_memory} allows."
        )
    except (ValueError, KeyError, TypeError) as error:
        reason = f"MuJoCo's reader gave an answer that cannot be understood: {error}."
    raise FileError(found.file, 1, "<mujoco>", reason)


def _failure(found: MjcfFiles, kind: str, message: str, options: LoadOptions) -> PhipsiError:
    if kind == "missing":
        reason = (
            f'MJCF is read with MuJoCo ({message}). Install it:\n    pip install "phipsi[mjcf]"'
        )
        return FileError(found.file, 1, "<mujoco>", reason)
    if kind == "memory":
        reason = (
            f"MuJoCo needs more memory for it than the {options.max_memory:,} bytes it may use. "
            "If it is right, give it more:\n"
            f"    pp.load({found.file!r}, max_memory={4 * options.max_memory})"
        )
        return FileError(found.file, 1, "<mujoco>", reason)
    return located_error(found, message)
