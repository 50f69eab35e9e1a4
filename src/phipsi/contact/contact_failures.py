"""What to say where a step with contacts fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phipsi.contact.contact_rows import GAINS_ENERGY, UNSOLVED_CONTACTS, WEDGED
from phipsi.core.model import Model
from phipsi.transmissions import Motor

Describes = Callable[[int], str] | None


def reason_of_contacts(
    model: Model, status: int, first: int, contact: Describes, overlap: Describes
) -> str:
    """Why contacts and stops have no impulses; empty if they have.

    `contact` names the contact of the trajectory `first` whose impulses were not found, `overlap`
    the pairs that overlap there.
    """
    if status == WEDGED and _motors(model):
        names = ", ".join(f"{x.name!r} (joint {x.joint!r})" for x in _motors(model))
        return (
            f"a motor and a rigid stop, rope or contact contradict each other: {names} moves on "
            "whatever effort that takes, and the other lets nothing pass. End the motion before "
            "it, or drive the joint with an effort that has a bound, in place of the Motor:\n"
            "    @pp.law\n"
            "    def drive(v, *, rate, most):\n"
            "        return np.clip(100.0 * (rate - v), -most, most)\n"
            f"    drive = drive.on({_motors(model)[0].joint!r}).bind(rate=1.0, most=10.0)\n"
            "    pp.simulate(model, q0, v0, 1.0, forces=forces, controller=drive)\n"
            "    pp.Simulator(model, [*forces, drive], dt, integrator='time_stepping')\n"
            "If nothing drives against a stop, bodies overlap that no joint can move apart: "
            "pp.distances(contacts, q) shows them"
        )
    if status == WEDGED:
        found = overlap(first) if overlap else ""
        pair = found.split("'")[1].split("|") if found.startswith("'") else []
        pair = pair if len(pair) == 2 else ["…", "…"]
        return (
            f"bodies overlap that the step cannot move apart{f': {found}' if found else ''}. Along "
            "the normals of their contacts the joints would have to move much farther than the "
            "bodies overlap. Begin with bodies apart, or leave out pairs that overlap by design:\n"
            f"    pp.Contacts(model, exclude=[({', '.join(map(repr, pair))})])\n"
            "pp.distances(contacts, q) shows all distances"
        )
    if status == GAINS_ENERGY:
        found = overlap(first) if overlap else ""
        return (
            "the impulses of contacts add kinetic energy, which rounding alone does not: they are "
            "so large that their errors count, as between bodies that are wedged"
            f"{f' ({found})' if found else ''}. "
            "pp.distances(contacts, q) shows pairs that overlap; leave out those that do by "
            "design, pp.Contacts(model, exclude=[(…, …)]), or give them a stiffness="
        )
    if status == UNSOLVED_CONTACTS:
        found = f": {contact(first)}" if contact else ""
        return (
            f"the impulses of contacts were not found{found}. A smaller dt, materials with a "
            "stiffness=, or fewer points that carry the same load help; the run with what was "
            "recorded before the failure comes with on_error='nan'"
        )
    return ""


def _motors(model: Any) -> list[Motor]:
    """Those of a system."""
    return [x for x in getattr(model, "constraints", ()) if isinstance(x, Motor)]
