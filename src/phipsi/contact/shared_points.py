"""Where two surfaces that give rub on each other: at one place for both, in one plane.

Where bodies overlap, the witness points of a slot are the depth apart. Forces along the normal do
not tell them apart; friction does. At x_a on one body and at x_b on the other, it would turn the
two together by depth × force. And points of one body at different depths that stick would hold its
tilt, with forces whose arm is the difference of depths: as large as one likes. So surfaces that
give rub at one point for both, and those of a pair in one plane across the normal:

    b a plane or a height field    in its surface, x_b
    any other pair                 at the height h = Σ w δ h_m / Σ w δ along the normal, δ and w the
                                   depths and weights of its slots, and h_m the heights of the
                                   middles between x_a and x_b

The height is that of the pressure: it does not jump where a slot lifts off, nor where the normal
goes over from the face of one body to that of the other.

**Source:** theory/contact 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phipsi.contact.contact_rows import is_rigid, slot_materials
from phipsi.model.contact_pairs import Contacts
from phipsi.model.shapes import is_surface

_NONE = 1e-15
"""A depth (m) beside which that of an open pair is none: its points stay where they are."""


def shared_points(contacts: Contacts | None, slots: Any) -> Any:
    """`Slots` with x_a = x_b where bodies that give rub on each other; others as they are."""
    if contacts is None or slots is None:
        return slots
    soft = ~is_rigid(slot_materials(contacts))
    if not soft.any():
        return slots
    flat, several, at = np.zeros(len(soft), bool), list[range](), 0
    for pair in contacts.pairs:
        mine = range(at, at + pair.slots)
        at += pair.slots
        if soft[mine.start] and is_surface(pair.b.shape):
            flat[mine.start : mine.stop] = True
        elif soft[mine.start]:
            several.append(mine)
    x_a, x_b = slots.x_a, slots.x_b
    if several:
        group = np.full(len(soft), -1)
        for i, mine in enumerate(several):
            group[mine.start : mine.stop] = i
        members = (group[:, None] == np.arange(len(several))) * 1.0  # (slots, pairs)
        depth = np.maximum(-slots.gap, 0.0)
        depth = depth if slots.weight is None else depth * slots.weight
        middle = 0.5 * np.sum(slots.normal * (x_a + x_b), axis=1)
        total = depth @ members
        height = members @ (((depth * middle) @ members) / np.maximum(total, _NONE))
        pressed = ((members @ total) > _NONE)[:, None]
        up = (height - np.sum(slots.normal * x_b, axis=1))[:, None] * slots.normal
        place = x_b + up
        x_a, x_b = np.where(pressed, place, x_a), np.where(pressed, place, x_b)
    return slots._replace(x_a=np.where(flat[:, None], slots.x_b, x_a), x_b=x_b)
