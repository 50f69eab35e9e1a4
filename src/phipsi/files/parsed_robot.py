"""A robot as a file describes it: links and joints with their lines, from which a Model is built.

Every reader fills a `ParsedRobot`; what all formats share (the tree, the base, the one warning)
happens here. Inertias are judged in file_inertias.py.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from phipsi.attached import (
    Exclusion,
    FileMetadata,
    Finding,
    JointProperties,
    LinkShape,
    MimicJoint,
    ShapePair,
)
from phipsi.core.constraints import Constraint, Coupling as JointCoupling
from phipsi.core.model import (
    WORLD_NAME,
    Body,
    Description,
    Frame,
    LimitsArgument,
    Model,
    ModelBuilder,
    Pose,
    SpatialInertia,
    check_body,
    joints,
)
from phipsi.errors import FileError, cut, did_you_mean, warn
from phipsi.files.file_inertias import Remark, immovable, repaired, validate_inertias
from phipsi.files.files import SourceLocation, attributed_to, unused, where
from phipsi.files.load import Base, LoadOptions
from phipsi.files.mimic_joints import checked_mimics, mimic_constraint
from phipsi.files.xml_document import TypoDetector, XMLElement, shortened

ROOT_JOINT = "root_joint"
_LOOP_HINT = (
    "Remove one of its joints, or swap parent and child of one if that opens it. A URDF is a tree; "
    "SDF has loops, and so has\n    pp.System(model, constraints)"
)
GROUND = ""  # the inertial frame as a parent; a file may have a link called "world"


@final
@dataclass
class Link:
    """A link of the file; `has_inertia`, whether the file states an inertia.

    `is_internal` is one the reader put between two joints of the same body.
    """

    name: str
    at: SourceLocation
    inertia: SpatialInertia = SpatialInertia()
    inertia_at: SourceLocation | None = None
    has_inertia: bool = False
    is_internal: bool = False


@final
@dataclass
class Connection:
    """A joint of the file between two links, or between `GROUND` and a link."""

    name: str
    at: SourceLocation
    parent: str
    child: str
    joint: joints.Joint
    placement: Pose = Pose()
    limits: LimitsArgument = None
    damping: Sequence[float] | float = 0.0
    armature: Sequence[float] | float = 0.0


@final
@dataclass
class ParsedRobot:
    """Everything read from one file, in the order of the file."""

    root: SourceLocation
    name: str = ""
    link_word: str = "link"
    gravity: tuple[float, ...] = (0.0, 0.0, -9.81)
    links: dict[str, Link] = field(default_factory=dict)
    joints: dict[str, Connection] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    shapes: list[LinkShape] = field(default_factory=list)
    exclusions: list[Exclusion] = field(default_factory=list)
    pairs: list[ShapePair] = field(default_factory=list)
    joint_properties: list[JointProperties] = field(default_factory=list)
    mimics: list[tuple[MimicJoint, SourceLocation]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    root_placements: dict[str, Pose] = field(default_factory=dict)
    constraints: list[Constraint] = field(default_factory=list)
    spelling: TypoDetector = field(default_factory=TypoDetector)
    deadline: float = math.inf  # of time.monotonic()

    def error(self, at: SourceLocation, element: str, reason: str) -> FileError:
        """Return a complaint, to be raised."""
        return FileError(at.file, at.line, element, reason)

    def who(self, part: Link | Connection) -> str:
        """How messages call a part: link 'hand', joint 'wrist'."""
        return f"{self.link_word if isinstance(part, Link) else 'joint'} {shortened(part.name)}"

    def fault(self, part: Link | Connection, reason: str) -> FileError:
        """Return a complaint about a part, to be raised."""
        return self.error(part.at, self.who(part), reason)

    def note(
        self,
        kind: str,
        element: str,
        name: str,
        message: str,
        at: SourceLocation,
        is_problem: bool = False,
        numbers: tuple[float, ...] = (),
    ) -> None:
        """Record a remark that is not about an inertia."""
        element, message = cut(element, 200), cut(message)
        self.findings.append(
            Finding(kind, element, name, message, numbers, at.file, at.line, is_problem)
        )

    def note_left_out(
        self,
        what: str,
        element: str,
        name: str,
        at: SourceLocation,
        is_problem: bool = True,
        instead: str = "",
    ) -> None:
        """Record what the file says and the model leaves out; `instead`, what to write."""
        message = f"{what} is not part of the model and is left out.{instead and ' ' + instead}"
        self.note("ignored", element, name, message, at, is_problem)

    def note_unknown(self, at: XMLElement, known: tuple[str, ...], who: str, name: str) -> None:
        """Record children of an element that look like typing errors."""
        for child, message in self.spelling.notes(at, known):
            self.note("ignored", who, name, message, child, True)

    def add_link(self, link: Link) -> None:
        """Add a link; its name must be new."""
        self._check_new(link, self.links)
        self.links[link.name] = link

    def add_joint(self, joint: Connection) -> None:
        """Add a joint; its name must be new."""
        self._check_new(joint, self.joints)
        self.joints[joint.name] = joint

    def _check_new(self, part: Link | Connection, known: Mapping[str, Link | Connection]) -> None:
        self._check_time(part.at)
        if part.name in known:
            word = self.who(part).partition(" ")[0]
            raise self.fault(
                part,
                f"the name is used before, {where(known[part.name].at, part.at)}. Rename one of "
                f"them; {word}s are identified by their names.",
            )

    def _check_time(self, at: SourceLocation) -> None:
        if time.monotonic() > self.deadline:
            reason = "reading takes longer than max_seconds allows; if it is right, give it more."
            raise self.error(at, "", reason)

    # ---------------------------------------------------------------- the tree

    def inboard_joints(self) -> dict[str, Connection]:
        """The joint each link hangs on; raises if a link is unknown or hangs on two."""
        inboard: dict[str, Connection] = {}
        for joint in self.joints.values():
            for role, link in (("parent", joint.parent), ("child", joint.child)):
                if link not in self.links and not (role == "parent" and link == GROUND):
                    reason = f"its {role} {shortened(link)} is not a {self.link_word} of this file."
                    raise self.fault(joint, f"{reason} {did_you_mean(link, self.links)}")
            if joint.parent == joint.child:
                reason = f"connects {shortened(joint.child)} to itself; name two links."
                raise self.fault(joint, reason)
            if (other := inboard.get(joint.child)) is not None:
                raise self.fault(
                    joint,
                    f"its child {shortened(joint.child)} is already attached by {self.who(other)} "
                    f"({where(other.at, joint.at)}), so the links form a loop, and a model is a "
                    f"tree with one joint per link. {_LOOP_HINT}",
                )
            inboard[joint.child] = joint
        self._reject_cycles(inboard)
        return inboard

    def _reject_cycles(self, inboard: dict[str, Connection]) -> None:
        grounded: set[str] = {GROUND}
        for name in self.links:
            trail: dict[str, None] = {}
            at = name
            while at not in grounded and at in inboard and at not in trail:
                trail[at] = None
                at = inboard[at].parent
            if at in trail:
                cycle = list(trail)[list(trail).index(at) :]
                loop = " → ".join(map(shortened, [*cycle[:8], *(["…"] if len(cycle) > 8 else [])]))
                raise self.fault(
                    inboard[at],
                    f"links form a cycle (child → parent): {loop}, so none is the base. "
                    f"{_LOOP_HINT}",
                )
            grounded.update(trail)
            grounded.add(at)

    # ---------------------------------------------------------------- the model

    def finish(self, options: LoadOptions, default_base: Base = "fixed") -> Model:
        """Check the whole, report the findings, and return the model."""
        self._rename_joint_called_world()
        inboard = self.inboard_joints()
        if options.repair:
            self._repair()
        self._judge_inertias()
        names = self._free_names(options.base or default_base, inboard)
        builder = ModelBuilder(self.gravity)
        parts = self._add_bodies(builder, inboard, names, options.base or default_base)
        for frame in self.frames:
            builder.add_frame(frame.name, names.get(frame.body, frame.body), frame.placement)
        dofs = {name: joint.joint.nv for name, joint in self.joints.items()}
        couplings = checked_mimics(self.mimics, dofs, self.note)
        if options.closes_loops:
            self.constraints.extend(map(mimic_constraint, couplings))
        with attributed_to(self.root, f"robot {shortened(self.name)}"):
            description = builder.describe("keep")  # moments are judged with the lines of the file
        self._judge_moving(description, names)
        moving = {body.joint_name for body in description.bodies}
        extras = FileMetadata(
            self.name,
            couplings,
            tuple(r for r in self.joint_properties if r.joint in moving),
            tuple(_renamed_shape(shape, names) for shape in self.shapes),
            tuple(self.findings),
            tuple(self.exclusions),
            tuple(self.pairs),
        )
        inertia = description.world_inertia
        if names.get(WORLD_NAME) == WORLD_NAME:
            inertia = self.links[WORLD_NAME].inertia + inertia
        whole = replace(description, parts=parts, world_inertia=inertia).having(extras)
        model = Model(whole)
        self._check_finite(model)
        independent = () if options.closes_loops else couplings
        report_findings(self.root.file, self.findings, independent, strict=options.strict)
        return model

    def _free_names(self, base: Base, inboard: dict[str, Connection]) -> dict[str, str]:
        """New names for links called "world", which is the name of the inertial frame."""
        world = self.links.get(WORLD_NAME)
        if world is None:
            return {}
        if base == "fixed" and WORLD_NAME not in inboard:
            if world.has_inertia and world.inertia.mass:
                message = "it is the inertial frame, so its mass has no effect."
                self.note("world", f"{self.link_word} 'world'", WORLD_NAME, message, world.at)
            return {WORLD_NAME: WORLD_NAME}
        new = unused(WORLD_NAME + "_link", self.links)
        message = (
            f"'world' names the inertial frame, so this {self.link_word} is named {new!r} here."
        )
        self.note("renamed", f"{self.link_word} 'world'", new, message, world.at)
        return {WORLD_NAME: new}

    def _add_bodies(
        self,
        builder: ModelBuilder,
        inboard: dict[str, Connection],
        names: dict[str, str],
        base: Base,
    ) -> tuple[Body, ...]:
        taken = set(self.joints)
        bodies: list[Body] = []
        for link in self.links.values():
            if link.name in inboard or names.get(link.name) == WORLD_NAME:
                continue
            name = ROOT_JOINT if ROOT_JOINT not in taken else f"{link.name}_{ROOT_JOINT}"
            taken.add(name := unused(name, taken))
            joint = joints.Free() if base == "free" else joints.Fixed()
            placement = self.root_placements.get(link.name, Pose())
            root = Connection(name, link.at, GROUND, link.name, joint, placement)
            bodies.append(self._add_body(builder, root, names))
        bodies += (self._add_body(builder, joint, names) for joint in self.joints.values())
        return tuple(bodies)

    def _rename_joint_called_world(self) -> None:
        joint = self.joints.get(WORLD_NAME)
        if joint is None:
            return
        new = unused(WORLD_NAME + "_joint", self.joints)

        def renamed(name: str) -> str:
            return new if name == WORLD_NAME else name

        joint.name = new
        self.joints = {each.name: each for each in self.joints.values()}
        self.joint_properties = [replace(x, joint=renamed(x.joint)) for x in self.joint_properties]
        self.mimics = [
            (replace(coupling, joint=renamed(coupling.joint), of=renamed(coupling.of)), at)
            for coupling, at in self.mimics
        ]
        self.constraints = [
            replace(one, joints=tuple(map(renamed, one.joints)))
            if isinstance(one, JointCoupling)
            else one
            for one in self.constraints
        ]
        message = f"'world' names the inertial frame, so this joint is named {new!r} here."
        self.note("renamed", "joint 'world'", new, message, joint.at)

    def _add_body(self, builder: ModelBuilder, at: Connection, names: dict[str, str]) -> Body:
        self._check_time(at.at)
        link = self.links[at.child]
        parent = names.get(at.parent, at.parent) if at.parent != GROUND else WORLD_NAME
        with attributed_to(at.at, self.who(at)):
            body = builder.add_body(
                names.get(link.name, link.name),
                parent=parent,
                joint=at.joint,
                placement=at.placement,
                inertia=link.inertia,
                joint_name=at.name,
                armature=at.armature,
                damping=at.damping,
                limits=at.limits,
            )
            check_body(body)
        return body

    def _check_finite(self, model: Model) -> None:
        arrays = {
            "inertias": model.inertia_matrices,
            "positions": model.placement_translations,
            "orientations": model.placement_rotations,
        }
        for what, array in arrays.items():
            if not np.isfinite(array).all():
                bad = int(
                    np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0]
                )
                raise self.error(
                    self.root,
                    f"body {shortened(model.body_names[bad])}",
                    f"the {what} of the links fixed together here overflow. Are the units kg "
                    "and m?",
                )

    # ---------------------------------------------------------------- judgements

    def _remark(self, link: Link, remark: Remark, name: str = "") -> None:
        kind, message, numbers, is_problem = remark
        who, at = self.who(link), link.inertia_at or link.at
        about = (message, numbers, at.file, at.line, is_problem)
        self.findings.append(Finding(kind, who, name or link.name, *about))

    def _judge_inertias(self) -> None:
        stated = [link for link in self.links.values() if link.has_inertia]
        for link, remarks in zip(
            stated, validate_inertias([link.inertia for link in stated]), strict=True
        ):
            for remark in remarks:
                self._remark(link, remark)

    def _repair(self) -> None:
        for link in self.links.values():
            if link.has_inertia:
                link.inertia, remark = repaired(link.inertia)
                if remark is not None:
                    self._remark(link, remark)

    def _judge_moving(self, description: Description, names: dict[str, str]) -> None:
        """Moving bodies without any inertia, their own or of what is fixed to them."""
        old = {new: name for name, new in names.items()}
        internal = {link.name for link in self.links.values() if link.is_internal}
        for name, remark in immovable(description.bodies, internal):
            self._remark(self.links[old.get(name, name)], remark, name)


def _renamed_shape(shape: LinkShape, names: dict[str, str]) -> LinkShape:
    return replace(shape, link=names[shape.link]) if shape.link in names else shape


# ---- reaching the user: one warning, or an error if asked for ------------------------------------

_SHOWN = 5
_ALSO_SAID = ("frame", "ref")  # notes that a warning repeats: what numbers mean
_BEGINNING = 10  # characters of a message that tell what it is about


def report_findings(
    file: str, findings: Sequence[Finding], couplings: Sequence[MimicJoint], *, strict: bool
) -> None:
    """Warn of the problems among the findings, and of mimic joints; raise if `strict`."""
    problems = [finding for finding in findings if finding.is_problem]
    if strict and problems:
        first = problems[0]
        more = f"\n… and {len(problems) - 1} more such findings." if len(problems) > 1 else ""
        raise FileError(
            first.file,
            first.line,
            first.element,
            f"{first.message} (strict=True rejects it; pp.load(path) loads with a warning){more}",
        )
    if problems:
        more = [f"\n{x.element}: {x.message}" for x in findings if x.kind in _ALSO_SAID]
        warn(summary(file, problems) + "".join(more))
    if couplings:
        listed = ", ".join(f"{c.joint!r} (of {c.of!r})" for c in couplings[:_SHOWN])
        more = f" and {len(couplings) - _SHOWN} more" if len(couplings) > _SHOWN else ""
        warn(
            f"{file}: {len(couplings)} mimic joint(s) move independently: {listed}{more}. "
            "model.couplings lists what the file says."
        )


def summary(file: str, problems: Sequence[Finding]) -> str:
    """Several problems in one text: how many of each kind, and the first few in full."""
    counts = Counter(finding.kind for finding in problems)
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    first = _of_every_kind(problems)[:_SHOWN]
    shown = "\n".join(f"  {finding}" for finding in first)
    more = f"\n  … and {len(problems) - len(first)} more" if len(problems) > len(first) else ""
    fate = "some inertias were changed" if counts["repaired"] else "nothing was changed"
    fix = ""
    if counts["triangle"] or counts["negative"]:
        fix = '; to fix inertias: pp.load(path, repair="inertia")'
    return (
        f"{file}: {len(problems)} finding(s) ({kinds}); {fate}.\n{shown}{more}\n"
        f"All of them: model.diagnosis. To reject such files: pp.load(path, strict=True){fix}."
    )


def _of_every_kind(findings: Sequence[Finding]) -> list[Finding]:
    """The first of every kind, then the second …; those about meshes come last.

    Of one kind, findings differ by their elements and how their messages begin.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    rank: dict[int, tuple[int, bool]] = {}
    for k, finding in enumerate(findings):
        what = (finding.kind, finding.element.partition(" ")[0], finding.message[:_BEGINNING])
        rank[k] = (seen[what], finding.kind == "mesh")
        seen[what] += 1
    return [findings[k] for k in sorted(rank, key=rank.__getitem__)]
