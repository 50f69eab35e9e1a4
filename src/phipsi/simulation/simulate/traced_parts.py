"""Which parts of a run are traced into its equations, and which are called as they are."""

from __future__ import annotations

from typing import Any

from phipsi.laws import Law
from phipsi.simulation import control
from phipsi.simulation.forces.force import Force

_ARGUMENTS = ("t", "q", "v")


def can_be_traced(x: Any) -> bool:
    """Whether a force element, a controller or a function is traced, or called as it is."""
    if isinstance(x, Law):
        return x.arguments == _ARGUMENTS and x.joints is None and not x.points
    if isinstance(x, Force):
        return type(x).__module__.startswith("phipsi.simulation.forces.")
    if not type(x).__module__.startswith("phipsi.simulation.control."):
        return False
    references = control.Constant, control.FourierPath, control.JointPath
    return type(x) in (control.ComputedTorque, control.PDGravity) and (
        type(x.reference) in references
    )
