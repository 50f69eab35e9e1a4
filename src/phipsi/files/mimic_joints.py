"""Mimic joints, `<mimic>` of URDF and SDF: reading them, which are kept, and their constraints.

A joint that mimics another has q = multiplier · (q of the other − reference) + offset. Readers
collect them with `mimic_of`; `ParsedRobot.finish` keeps those of two joints with one degree of
freedom each (`checked_mimics`), and makes constraints of them (`mimic_constraint`) unless loops
stay open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from phipsi.attached import MimicJoint
from phipsi.core.constraints import Constraint, Coupling as JointCoupling
from phipsi.errors import did_you_mean
from phipsi.files.files import SourceLocation
from phipsi.files.xml_document import NamedValues, XMLElement, shortened

_HINTS = 10


def mimic_of(
    at: XMLElement, values: NamedValues, name: str, who: str, scope: Callable[[str], str] = str
) -> tuple[MimicJoint, XMLElement]:
    """q = multiplier · (q of the other − reference) + offset; only SDF has references."""
    of = at.attributes.get("joint")
    if not of:
        raise at.error('<mimic> lacks joint="…", the joint to follow.', who)
    multiplier, offset = values.number("multiplier", who, 1.0), values.number("offset", who, 0.0)
    offset -= multiplier * values.number("reference", who, 0.0)
    return MimicJoint(name, scope(of), multiplier, offset), at


def checked_mimics(
    mimics: Iterable[tuple[MimicJoint, SourceLocation]],
    dofs: Mapping[str, int],
    note: Callable[[str, str, str, str, SourceLocation, bool], None],
) -> tuple[MimicJoint, ...]:
    """Those between two joints of one degree of freedom each; the others are noted and left out.

    **Arguments:** `dofs`, degrees of freedom of the joints of the tree by name; `note`, that of a
    `ParsedRobot`.
    """
    kept: list[MimicJoint] = []
    unknown = 0
    for coupling, at in mimics:
        who = f"joint {shortened(coupling.joint)}"
        nv = {dofs[name] for name in (coupling.joint, coupling.of) if name in dofs}
        problem = ""
        if coupling.joint not in dofs:
            problem = ", but it closes a loop and has no coordinate."
        elif coupling.of not in dofs:
            unknown += 1  # hints are slow, and after a few nobody reads them
            hint = did_you_mean(coupling.of, dofs) if unknown <= _HINTS else ""
            problem = f", which is not a joint of this file. {hint}"
        elif coupling.of == coupling.joint:
            problem = ", which is itself."
        elif 0 in nv:
            problem = ", but one of the two is fixed."
        elif max(nv) > 1:
            problem = ", but one of the two has several degrees of freedom."
        if problem:
            message = f"mimics {shortened(coupling.of)}{problem} The coupling is left out."
            note("mimic", who, coupling.joint, message, at, True)
            continue
        kept.append(coupling)
    return tuple(kept)


def mimic_constraint(coupling: MimicJoint) -> Constraint:
    """q[joint] = multiplier · q[of] + offset as a constraint."""
    joints_, numbers = [coupling.joint], [1.0]
    if coupling.multiplier:
        joints_.append(coupling.of)
        numbers.append(-coupling.multiplier)
    name = f"{coupling.joint} mimics {coupling.of}"
    return JointCoupling(name=name, joints=joints_, coefficients=numbers, offset=coupling.offset)
