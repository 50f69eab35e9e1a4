"""Units of the entries of q and v."""

from __future__ import annotations

from phipsi.core.model.model import Model

_NAMED = {"theta": "rad", "eta": "mode"}  # coordinates by their names; others are lengths


def entry_units(model: Model) -> tuple[list[str], list[str]]:
    """Units of the entries of q and v: rad, m, 1 for quaternions, and "mode" for amplitudes."""
    places: list[str] = []
    rates: list[str] = []
    for joint in model.joints:
        for group, i, _ in joint.parts(0, 0):
            turn = group.rotation
            if turn is None:
                names = joint.coordinate_names[i : i + group.nq]
                kinds = [
                    next((u for n, u in _NAMED.items() if x.startswith(n)), "m") for x in names
                ]
                places += kinds
                rates += [kinds[i] for i in group.own_places]
            else:
                places += ["rad" if turn.size == 1 else "1"] * turn.size + ["m"] * group.space
                rates += ["rad"] * turn.rates + ["m"] * group.space
    return places, [f"{x}/s" for x in rates]
