"""Warnings about laws that are accepted, but hardly do what was meant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from phipsi.errors import warn
from phipsi.laws import OUTPUTS, Law, Signal

_LIKE_TAU = {
    "tau", "taus", "tau_cmd", "tau_d", "torque", "torques", "joint_torques", "effort", "efforts",
    "generalized_forces",
}  # fmt: skip
_COMMANDS = {"u", "control", "command", "forces", "wrenches"}
"""Names that records have too: meant as tau where no other law acts."""


def check_acting(
    laws: Mapping[str, Law], outputs: Mapping[str, Collection[str]], read: Collection[str]
) -> None:
    """Warn of laws that return torques under another name than tau, which have no effect.

    **Arguments:** `laws` by name; `outputs`, the names of what each returns; `read`, the names of
    laws that others read.
    """
    others = [n for n, x in laws.items() if x.acts and any(y in OUTPUTS for y in outputs[n])]
    like = _LIKE_TAU if others else _LIKE_TAU | _COMMANDS
    for name, law in laws.items():
        known = outputs[name]
        if not law.acts or name in read or any(x in OUTPUTS for x in known):
            continue
        meant = next((x for x in known if x.lower() in like), None)
        if meant is not None:
            warn(
                f"{law.place}the law {name!r} returns {meant!r} and no 'tau', so it has no effect "
                "on the motion: the loop is open. Return joint torques and forces as\n"
                f"    return {{'tau': …}}\n"
                f"If {meant!r} is only recorded, pass  {name}.silent()"
            )


def check_commands(
    laws: Mapping[str, Law],
    name_of: Callable[[Any], str],
    places: Callable[[Law], Sequence[int]],
) -> None:
    """Warn of torques that act and are the command of an actuator too, or of another joint.

    **Arguments:** `laws` by name; `name_of`, the name of a law that a signal reads; `places`, the
    velocities of a law's joints, in its order.
    """
    for name, law in laws.items():
        signal = law.bound.get("command")
        if not isinstance(signal, Signal) or signal.kind not in ("output", "previous"):
            continue
        if isinstance(signal.of[0], Signal) or signal.of[1] != "tau":
            continue
        source = name_of(signal.of[0])
        read = laws[source]
        if read.acts and law.acts:
            warn(
                f"the tau of the law {source!r} acts on the joints, and is the command of {name!r} "
                "too, so it acts twice. Make it a command only:\n"
                f"    {source}.silent()"
            )
        mine, its = list(places(law)), list(places(read))
        if mine != its and sorted(mine) == sorted(its):
            warn(
                f"the joints of {name!r} and of {source!r}, whose tau is its command, have "
                "different orders, and torques are matched by position: they reach other joints. "
                "Name the joints in the same order:\n"
                f"    {list(law.joints or ()) or 'the order of the model'} instead of "
                f"{list(read.joints or ()) or 'the order of the model'}"
            )
