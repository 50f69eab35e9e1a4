"""Functions that are exported by name, and the arrays of any exported program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from phipsi.algorithms import (
    BIAS_FORCES,
    FORWARD_DYNAMICS,
    GRAVITY_FORCES,
    INVERSE_DYNAMICS,
    forward_with_rows,
)
from phipsi.codegen.c_identifiers import OWN_NAMES, identifier, numbered_name
from phipsi.codegen.exported_module import ExportedArray
from phipsi.codegen.quoted_texts import comment
from phipsi.core.backends import Program, SweepProgram
from phipsi.core.compiler import compile
from phipsi.core.expressions import Expr
from phipsi.core.model import Model
from phipsi.core.operators import J, frame_pose, mass_matrix, pose
from phipsi.errors import InputError, did_you_mean

Names = tuple[str, str, str]
"""Of a result: its name in C, units, and meaning."""

RATES, EFFORTS = "rad/s, m/s", "N m, N"
ACCELERATIONS = "rad/s^2, m/s^2"


@dataclass(frozen=True)
class NamedFunction:
    """A function by name: its expression, results, and whether it needs points.

    `at_points` is the expression for named points, of a function that can be called without points
    too. `trees` means that constraint forces would change the result: the function is for
    mechanisms without constraints.
    """

    expression: Expr
    result: Names
    mode: str = "apply"
    points: bool = False
    at_points: Expr | None = None
    trees: bool = False


NAMED = {
    "forward_dynamics": NamedFunction(
        FORWARD_DYNAMICS, ("vdot", ACCELERATIONS, "joint accelerations that tau causes")
    ),
    "inverse_dynamics": NamedFunction(
        INVERSE_DYNAMICS, ("tau", EFFORTS, "joint efforts that vdot needs"), trees=True
    ),
    "bias_forces": NamedFunction(
        BIAS_FORCES, ("tau", EFFORTS, "joint efforts at vdot = 0"), trees=True
    ),
    "gravity_forces": NamedFunction(
        GRAVITY_FORCES, ("tau", EFFORTS, "joint efforts at rest"), trees=True
    ),
    "mass_matrix": NamedFunction(
        mass_matrix, ("mass_matrix", "kg m^2, kg m, kg", "row by row"), "dense"
    ),
    "mass_matrix_inverse": NamedFunction(
        mass_matrix.inv, ("inverse", "1/(kg m^2), 1/(kg m), 1/kg", "row by row"), "dense",
        trees=True,
    ),
    "poses": NamedFunction(
        pose, ("poses", "1, m", "4 x 4 pose of every body or point in the world, row by row"),
        at_points=frame_pose,
    ),
    "jacobian": NamedFunction(
        J, ("jacobian", "1, m", "six rows per point in world axes: angular, then linear"),
        "dense", points=True,
    ),
}  # fmt: skip


def programs_named(
    model: Model, what: str | Sequence[str] | None = None, **options: Any
) -> dict[str, Program]:
    """Programs by the names of their functions, such as "forward_dynamics" or "jacobian:tool0".

    Points follow the colon, several of them joined by +. One string may have several names, joined
    by commas. By default: forward dynamics, and for trees inverse dynamics.
    """
    out: dict[str, Program] = {}
    if what is None:
        what = ("forward_dynamics", *(() if model.n_rows else ("inverse_dynamics",)))
    for text in what.split(",") if isinstance(what, str) else what:
        if not isinstance(cast(object, text), str):
            raise InputError(
                f"what={text!r} is not the name of a function. Known: {', '.join(NAMED)}"
            )
        name, _, listed = text.strip().partition(":")
        found = NAMED.get(name)
        if found is None:
            known = f"there is no function {name!r} to export. Known: {', '.join(NAMED)}."
            raise InputError(f"{known} {did_you_mean(name, NAMED, ' ')}".rstrip())
        if found.points != bool(listed) and found.at_points is None:
            example = f"{name}:{model.body_names[-1]}" if found.points else name
            need = "needs points" if found.points else "takes no points"
            raise InputError(f"{text!r}: {name} {need}; write  {example}")
        points = listed.split("+") if listed else None
        _check_forces(model, name, found)
        form = found.at_points if found.at_points and listed else found.expression
        if form is FORWARD_DYNAMICS and model.n_rows:
            form = forward_with_rows(None, False, False)[0]
        key = identifier("_".join([name, *(points or ())]))
        out[key] = compile(form, model, mode=found.mode, points=points, **options)
    return out


def _check_forces(model: Model, name: str, function: NamedFunction) -> None:
    """Reject functions that would ignore the forces of constraints or contacts."""
    if function.trees and model.n_rows:
        raise InputError(
            f"{name} cannot be exported by name for a mechanism with constraints: its result "
            "depends on their forces. For the tree alone, with its loops cut open, pass "
            "system.model"
        )
    if function.expression is FORWARD_DYNAMICS and model.contact_pairs is not None:
        raise InputError(
            f"{name} does not account for the forces of contacts. Export a step, which does:  "
            'pp.export({}, folder, step=pp.Simulator(system, dt=1e-3, integrator="time_stepping"))'
        )


def name_of(program: Program) -> str:
    """The name of a program's function, if it has one."""
    for name, found in NAMED.items():
        if _is(program.request.expressions, program.request.modes, found):
            return name
    return "program"


def _is(expressions: tuple[Expr, ...], modes: tuple[str, ...], function: NamedFunction) -> bool:
    forms = [function.expression, *([function.at_points] if function.at_points else [])]
    if function.expression is FORWARD_DYNAMICS:
        forms.append(forward_with_rows(None, False, False)[0])
    return expressions in [(x,) for x in forms] and modes == (function.mode,)


# ---- arrays --------------------------------------------------------------------------------------

_INPUTS = {
    "q": ("rad, m", "configuration: joint by joint"),
    "v": (RATES, "joint rates"),
    "vdot": (ACCELERATIONS, "joint accelerations"),
    "tau": (EFFORTS, "joint efforts"),
    "f_ext": ("N m, N", "force on each body at its origin in body axes: moment, force"),
    "f0": ("N m, N", "force at each point: moment, force"),
    "gravity": ("m/s^2", "acceleration of gravity in the world"),
    "pose": ("1, m", "4 x 4 pose of every body, row by row"),
    "placement": ("1, m", "4 x 4 pose of every joint in its parent, row by row"),
}


def described_arrays(program: SweepProgram, shapes: Sequence[tuple[int, ...]]) -> tuple[
    ExportedArray, ...
]:  # fmt: skip
    """The arguments of a program's function; `shapes` are those of all its arrays."""
    expressions, modes = program.request.expressions, program.request.modes
    taken: set[str] = set(OWN_NAMES)
    out: list[ExportedArray] = []
    for name, shape in zip(program.inputs, shapes, strict=False):
        units, text = _INPUTS.get(name, ("", ""))
        if not text:
            given = name in program.request.inputs
            text = f"value of {name}" if given else "operand"
        out.append(ExportedArray(numbered_name(identifier(name), taken), shape, units, "in", text))
    known = [n.result for n in NAMED.values() if _is(expressions, modes, n)]
    rest = list(zip(expressions, program.lowered.results, strict=True))
    for i, (shape, (x, r)) in enumerate(zip(shapes[len(program.inputs) :], rest, strict=True)):
        number = str(i + 1) if len(rest) > 1 else ""
        phrase = comment(f"{r.gives}: {x}")
        name, units, text = known[0] if known else (f"result{number}", "", phrase)
        out.append(ExportedArray(numbered_name(name, taken), shape, units, "out", text[:200]))
    return tuple(out)
