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
            f"a motor contradicts a rigid limit, rope or contact: {names} prescribes a motion that "
            "the other blocks. Stop the motion before it, or drive the joint with a bounded torque "
            "in place of the Motor:\n"
            "    @pp.law\n"
            "    def drive(v, *, rate, most):\n"
            "        return np.clip(100.0 * (rate - v), -most, most)\n"
            f"    drive = drive.on({_motors(model)[0].joint!r}).bind(rate=1.0, most=10.0)\n"
            "    pp.simulate(model, q0, v0, 1.0, forces=forces, controller=drive)\n"
            "    pp.Simulator(model, [*forces, drive], dt, integrator='time_stepping')\n"
            "If no motor drives against a limit, bodies penetrate each other that no joint can "
            "separate: pp.distances(contacts, q) shows them"
        )
    if status == WEDGED:
        found = overlap(first) if overlap else ""
        pair = found.split("'")[1].split("|") if found.startswith("'") else []
        pair = pair if len(pair) == 2 else ["…", "…"]
        return (
            "bodies penetrate each other and the step cannot separate "
            f"them{f': {found}' if found else ''}. Along the contact normals the joints would have "
            "to move much farther than the penetration. Start with separated bodies, or exclude "
            "pairs that overlap by design:\n"
            f"    pp.Contacts(model, exclude=[({', '.join(map(repr, pair))})])\n"
            "pp.distances(contacts, q) shows all distances"
        )
    if status == GAINS_ENERGY:
        found = overlap(first) if overlap else ""
        return (
            "the contact impulses add kinetic energy beyond rounding: they are too large to be "
            f"accurate, as between wedged bodies{f' ({found})' if found else ''}. "
            "pp.distances(contacts, q) shows pairs that overlap; exclude those that do by design, "
            "pp.Contacts(model, exclude=[(…, …)]), or give them a stiffness="
        )
    if status == UNSOLVED_CONTACTS:
        found = f": {contact(first)}" if contact else ""
        if model.contact_pairs is None:
            return (
                f"the impulses of dry friction and rigid joint limits were not found{found}. Try a "
                "smaller dt, or a velocity_scale above 0 and a finite stiffness, with which other "
                "integrators work too. With on_error='nan' the results up to the failure are "
                "returned"
            )
        return (
            f"the contact solver did not converge{found}. Try a smaller dt, materials with a "
            "stiffness=, or fewer contact points that carry the same load. With on_error='nan' the "
            "results up to the failure are returned"
        )
    return ""


def _motors(model: Any) -> list[Motor]:
    """Those of a system."""
    return [x for x in getattr(model, "constraints", ()) if isinstance(x, Motor)]
