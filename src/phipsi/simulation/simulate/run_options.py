"""Numbers of a run that have defaults: its step, its tolerances, how its constraints are kept.

An option that is None has its default. One that has no effect in this run is an error that
says why: the step of a method that chooses its steps, the tolerances of one that does not, the
projection of a mechanism without constraints.

Reasons: docs/decisions/0065.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from phipsi.core.model import as_list
from phipsi.errors import InputError
from phipsi.simulation.forces.force import Force
from phipsi.simulation.integrators.tableaux import Method
from phipsi.simulation.runs.checks import checked_time, checked_tolerances
from phipsi.simulation.simulate.run_constraints import checked_stabilization

DT, RTOL, ATOL = 1e-3, 1e-9, 1e-12
"""The step of fixed-step methods, s, and the tolerances of the others."""
OF_STEPS = ("dt", "rtol", "atol")
OF_CONSTRAINTS = ("stabilization", "constraint_tolerance", "baumgarte_rate")
_DEFAULTS = ("project", 1e-10, 20.0)


class RunOptions(NamedTuple):
    """Numbers of a run, all of which count.

    **Attributes:** `dt`, s; `rtol`, `atol`; `kept`: how constraints are kept, to which tolerance
    (rad, m) and at which rate (1/s).
    """

    dt: float
    rtol: float
    atol: float
    kept: tuple[str, float, float]


def run_options(
    method: Method, given: Mapping[str, Any], *, rows: bool, contacts: bool = False
) -> RunOptions:
    """The numbers of a run; `given` by name, None for what the user has not given.

    `rows`, whether the mechanism has constraints, or may have some later; `contacts`, whether it
    has events of contacts, whose gaps are closed to `constraint_tolerance` too.
    """
    reject_idle_steps(method, given)
    dt, rtol, atol = map(given.get, OF_STEPS)
    step = DT if dt is None else checked_time(dt, "dt")
    tolerances = RTOL, ATOL
    if rtol is not None or atol is not None:
        tolerances = checked_tolerances(
            RTOL if rtol is None else rtol, ATOL if atol is None else atol
        )
    kept = _kept(method, [*map(given.get, OF_CONSTRAINTS)], rows, contacts)
    return RunOptions(step, *tolerances, kept)


def _kept(
    method: Method, given: Sequence[Any], rows: bool, contacts: bool
) -> tuple[str, float, float]:
    """How constraints are kept; the values of `OF_CONSTRAINTS`, None for what is not given."""
    own = {name: x for name, x in zip(OF_CONSTRAINTS, given, strict=True) if x is not None}
    if not own:
        return _DEFAULTS
    how = own.get("stabilization", _DEFAULTS[0])
    for name, value in own.items():
        why = _idle_constraints(name, method, how, rows, contacts)
        if why:
            raise InputError(f"{name}={value!r} has no effect: {why}")
    both = zip(OF_CONSTRAINTS, _DEFAULTS, strict=True)
    return checked_stabilization(*(own.get(name, default) for name, default in both))


def reject_idle_steps(method: Method, given: Mapping[str, Any]) -> None:
    """Reject a step where the method chooses its steps, and tolerances where it does not."""
    for name in ("dt",) if method.is_adaptive else ("rtol", "atol"):
        value = given.get(name)
        if value is None:
            continue
        if name == "dt":
            raise InputError(
                f"dt={value!r} has no effect: integrator={method.name!r} chooses its steps from "
                "rtol and atol. Remove it. For states at regular times, or for fixed steps:\n"
                f"    output_times=np.arange(0, duration, {value!r})\n"
                f"    integrator='rk4', dt={value!r}"
            )
        raise InputError(
            f"{name}={value!r} has no effect: integrator={method.name!r} has fixed steps, whose "
            f"errors are proportional to dt to the power {method.order}. Remove it. For smaller "
            "errors, or for steps that follow from tolerances:\n"
            f"    dt={DT / 2:g}\n"
            f"    integrator='dopri', {name}={value!r}"
        )


def _idle_constraints(name: str, method: Method, how: str, rows: bool, contacts: bool) -> str:
    """Why an option about constraints has no effect; empty if it has one."""
    if method.handles_contact:
        return (
            f"steps of integrator={method.name!r} are compiled, and always end with a "
            "projection. Remove it, or use an integrator that locates events:\n"
            "    integrator='dopri'"
        )
    if not rows and not (contacts and name == "constraint_tolerance"):
        return (
            "this mechanism has no constraints, so there is no constraint drift. Remove it, or "
            "pass a system:\n"
            "    pp.System(model, constraints)"
        )
    if name == "constraint_tolerance" and how != "project":
        return (
            f"it is the tolerance of projections, and stabilization={how!r} has none. Remove it, "
            "or pass\n"
            "    stabilization='project'"
        )
    if name == "baumgarte_rate" and how != "baumgarte":
        return (
            f"it is the rate at which residuals are fed back, and stabilization={how!r} feeds "
            "none back. Remove it, or pass\n"
            "    stabilization='baumgarte'"
        )
    return ""


def listed(name: str, given: Any, kind: type, example: str) -> list[Any]:
    """An argument that is a list of one kind of objects; one may stand for itself."""
    return [given] if isinstance(given, kind) else as_list(name, given, example)


def listed_forces(forces: Any) -> list[Any]:
    """Force elements as a list."""
    return listed("forces", forces, Force, "[pp.forces.JointDamper('elbow', 0.5)]")
