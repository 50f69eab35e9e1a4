"""From the status of the elements of a batch to errors that explain it.

Backends return a status per element, `status_of`; `error_at` of `backends/reference.py` turns it
back into a `Failure`, by running the element once more, and `error_of` here writes the message.

Below which limits something is singular: `backends/rank_limits.py`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from phipsi.core.backends.rank_limits import HINGE_TOLERANCE
from phipsi.core.model import ClosureSet, Model, bent_too_far, named
from phipsi.core.spatial import ARRAYS
from phipsi.errors import InputError, PhipsiWarning, SingularHingeError, SingularMatrixError

HINGE, BLOCK, SMALL, NOT_FINITE, CONTRADICTION, DOUBTFUL, NO_MEMORY = 1, 2, 3, 4, 5, 6, 7
CODES = 8  # a status is a code below this plus CODES · (number of the body or row + 1)
# of the largest number of a given block of a symmetric operator, by which it may differ from its
# transpose; programs read one half
SYMMETRY_TOLERANCE = 1e-9
STATUS_WORDS = {
    0: "fine",
    HINGE: "hinge without inertia",
    BLOCK: "singular block",
    SMALL: "singular matrix",
    NOT_FINITE: "not a finite number",
    CONTRADICTION: "constraints that contradict each other",
    DOUBTFUL: "constraint rows that nearly depend on each other",
    NO_MEMORY: "no memory to work in",
}


@dataclass(frozen=True)
class Failure:
    """One operation that has no result in some elements of the batch.

    `mask` marks the elements (batch shape), `body` is the body (−1: none) or constraint row, `what`
    the operator that is singular or the name of the row, `value` its block, batched, `scale` the
    numbers beside which its pivots are rounding errors.
    """

    code: int
    body: int
    what: str
    mask: np.ndarray
    value: np.ndarray
    scale: np.ndarray | None = None


def status_of(failures: list[Failure], batch: tuple[int, ...]) -> np.ndarray:
    """0, or code + 8·(body + 1), per element; the first failure counts, doubts come last."""
    status = np.zeros(batch, dtype=np.int64)
    for f in sorted(failures, key=lambda f: f.code == DOUBTFUL):
        status = np.where((status == 0) & f.mask, f.code + CODES * (f.body + 1), status)
    return status


def with_part(code: int, part: int | None) -> int:
    """The status of a failure in a body or row, or in none that has a number."""
    return code if part is None else code + CODES * (part + 1)


def code_of(error: Exception) -> int:
    """The status of an element for which a dense solution raised an error."""
    if isinstance(error, SingularHingeError):
        return HINGE
    return CONTRADICTION if isinstance(error, InputError) else SMALL


def is_failure(status: Any) -> Any:
    """Whether the status of an element is more than a doubt."""
    code = status % 8
    return (code != 0) & (code != DOUBTFUL)


def warn_of_doubts(status: np.ndarray, closures: ClosureSet | None) -> None:
    """Say that a row was left out of an inverse although it does not quite follow from others."""
    index = tuple(int(i) for i in np.argwhere(status % 8 == DOUBTFUL)[0])
    row = int(status[index]) // 8 - 1
    name = (
        f" {closures.row_names[row]!r}" if closures and 0 <= row < len(closures.row_names) else ""
    )
    where = f"\n(element {list(index)} of the batch)" if index else ""
    warnings.warn(
        f"constraint row{name} is nearly linearly dependent on earlier rows. An inverse ignores "
        "it, but its right side is inconsistent with theirs: the configuration is singular, or the "
        "loops are not exactly closed. Close them first,  q, v = system.project(q, v),  or use "
        "pp.forward_dynamics(system, …) and pp.constraint_forces(system, …), which decide such "
        f"cases by singular values.{where}",
        PhipsiWarning,
        stacklevel=4,
    )


def error_of(
    failure: Failure,
    model: Model,
    closures: ClosureSet | None = None,
    q: np.ndarray | None = None,
) -> Exception:
    """The exception for the first failing element; `closures` of a system, to name its loops.

    `q` (nq,), if it is known, of that element: bodies that are bent too far are named.
    """
    index = tuple(int(i) for i in np.argwhere(failure.mask)[0]) if failure.mask.ndim else ()
    where = f"\n(element {list(index)} of the batch)" if index else ""
    value = failure.value[index]
    if failure.code == HINGE:
        scale = None if failure.scale is None else failure.scale[index]
        text = singular_hinge_text(model, failure.body, value, scale)
        bent = ""
        if model.is_flexible and q is not None and q.dtype != object:
            bent = bent_too_far(model, q, model.tree.subtree(failure.body))
        if bent:
            first = text.splitlines()[0].rstrip(":")
            return SingularHingeError(f"{first}.\n{bent}{where}")
        return SingularHingeError(text + where)
    if failure.code == BLOCK:
        name = model.body_names[failure.body]
        if failure.body < 0:
            return SingularMatrixError(
                f"the block of  {failure.what}  at a point is singular:\n{value}\n"
                f"so its inverse does not exist there.{where}"
            )
        if failure.what.startswith("D{"):
            return SingularMatrixError(_zero_pivot_text(failure.what, name, value) + where)
        return SingularMatrixError(
            f"the block of  {failure.what}  at body {name!r} is singular:\n{value}\n"
            f"so its inverse does not exist there.{where}"
        )
    if failure.code == NOT_FINITE:
        return SingularMatrixError(_not_finite_text(failure, model, closures) + where)
    if failure.code == CONTRADICTION:
        return SingularMatrixError(_contradiction_text(failure, value, model, closures) + where)
    known = np.isfinite(value).all()
    rank = f"rank {np.linalg.matrix_rank(value)} of {value.shape[-1]}" if known else "no full rank"
    return SingularMatrixError(
        f"({failure.what})⁻¹ does not exist: the matrix has {rank}. The points cannot all move "
        f"independently (J lacks row rank). Drop points or directions that depend on each other, "
        f"or use the compliance J ℳ⁻¹ J* itself, which always exists.{where}"
    )


def _zero_pivot_text(what: str, body: str, value: np.ndarray) -> str:
    """An elimination that fails although its matrix may be regular: that matrix is indefinite."""
    axes, transition, *inner, diagonal = what[2:-1].split("; ")
    T = transition.removeprefix("E_")
    whole = f"{axes} {T} {' '.join(inner)} {T}* {axes}* + {diagonal}"
    return (
        f"the pivot  {what}  at body {body!r} is zero, or has lost its digits to cancellation:\n"
        f"{value}\n"
        f"X = {whole} is indefinite or singular. Its inverse is found by elimination from body to "
        "body, which exchanges no rows between bodies, so that it can fail where X is regular. "
        "Use the dense inverse, O(N³):\n"
        "    pp.evaluate_dense(X.inv, model, q)"
    )


def _not_finite_text(failure: Failure, model: Model, closures: ClosureSet | None) -> str:
    """What numbers that are not finite may come from."""
    if failure.body >= 0:
        return (
            f"the quaternion of joint {model.joint_names[failure.body]!r} in q is zero, or so "
            "short or long (below 1e-77, above 1e77) that its square is not a number: it is not a "
            "rotation. A configuration in which all rotations are the identity is model.neutral()."
        )
    rods = [c for c in closures.closures if "distance" in c.forms] if closures else []
    listed = ", ".join(f"{c.name!r}" for c in rods[:6]) + (", …" if len(rods) > 6 else "")
    apart = f"the two points of a distance or circle coincide ({listed}), " if rods else ""
    return (
        f"the result is not a finite number, although the inputs are: {apart}numbers are too "
        "large, log det is taken of an operator that is not positive, or a custom formula "
        "has no finite value or slope there (the root or norm of 0, a division by 0)."
    )


def _contradiction_text(
    failure: Failure, value: np.ndarray, model: Model, closures: ClosureSet | None
) -> str:
    """Which row of the constraints contradicts the others."""
    known = value.size and np.isfinite(value).all()
    gap = f" (they differ by {float(np.max(np.abs(value))):.3g})" if known else ""
    closure = closures.closures[int(closures.row_closure[failure.body])] if closures else None
    loop = f" of {named(model, closure)}" if closure else ""
    return (
        f"constraint row {failure.what!r}{loop} is linearly dependent on earlier rows, but "
        f"inconsistent with them{gap}: no motion satisfies all constraints.\n"
        "Either the loops are not closed, the velocities violate the constraints, prescribed "
        "velocities contradict each other, or the configuration is singular. Project the state "
        "onto the constraints first:\n    q, v = system.project(q, v)\n"
        "The rows that depend on others are  system.redundant_rows(q)"
    )


def outboard_sizes(model: Model) -> np.ndarray:
    """(n, 2): how large the inertia (kg·m² and kg) is that may cancel in D of every joint.

    What a joint outboard can do freely cancels in P − G H P and leaves rounding errors of the size
    of P, where exact arithmetic leaves nothing: behind a free joint, for example. Counted are the
    bodies outboard, half as much with every joint between, so that long chains stay bounded.
    """
    own = np.diagonal(model.inertia_matrices, axis1=-2, axis2=-1)
    out = np.stack([own[:, :3].max(-1), own[:, 3:].max(-1)], axis=-1)
    arms = (model.placement_translations**2).sum(-1)
    for k in reversed(range(model.n_bodies)):
        parent = model.parent[k]
        if parent >= 0:
            turn, mass = out[k]
            out[parent] += (turn + arms[k] * mass) / 2, mass / 2
    return out


def joint_without_pose(model: Model, q: np.ndarray) -> int:
    """The first joint whose pose at q (nq,) is not finite, as with a zero quaternion; −1: none."""
    if q.dtype == object:
        return -1
    with np.errstate(all="ignore"):
        for i, (joint, where) in enumerate(zip(model.joints, model.q_slices, strict=True)):
            R, p = joint.transform(joint.params, list(q[where]), ARRAYS)
            if not np.isfinite([*(x for row in R for x in row), *p]).all():
                return i
    return -1


def singular_hinge_text(
    model: Model, body: int, d: np.ndarray, scale: np.ndarray | None = None
) -> str:
    """The text of a SingularHingeError: joint, D, the bodies outboard, and the fix."""
    joint, name = model.joint_names[body], model.body_names[body]
    kind = model.joints[body].kind
    outboard = [model.body_names[i] for i in model.tree.subtree(body)]
    shown = ", ".join(repr(b) for b in outboard[:6]) + (", …" if len(outboard) > 6 else "")
    modes = model.modes[body]
    width = model.joints[body].nv - modes
    number = f"{d.item():.3g}" if d.size == 1 else "\n" + np.array2string(d, prefix="    ")
    if modes and d.size > 1:
        number = f"[… of {len(d)} rates], its diagonal {np.diag(d)[:width]} and then {modes} modes"
    armature = "1e-4" if width == 1 else str((1e-4,) * width)
    largest = 0.0 if scale is None else float(np.max(scale, initial=0.0))
    if np.diagonal(d).min(initial=np.inf) > 0 and HINGE_TOLERANCE * largest > 0:
        least = HINGE_TOLERANCE * largest
        return (
            f"joint {joint!r} ({kind}, body {name!r}) has too little inertia to be "
            f"distinguished from rounding errors:\n"
            f"    D = H P H* + Jr = {number}   (kg·m² or kg, in the joint's own directions)\n"
            f"The largest inertia of the bodies outboard ({shown}) is {largest:.3g}, so D is known "
            f"to about {least:.1g} only: lengths or masses differ too much. Give the joint rotor "
            f"inertia, or remove the very small bodies:\n"
            f"    model.with_body({name!r}, armature={_rounded_up(least, width)})"
        )
    return (
        f"joint {joint!r} ({kind}, body {name!r}) has no inertia to move:\n"
        f"    D = H P H* + Jr = {number}   (kg·m² or kg, in the joint's own directions)\n"
        f"Every body outboard of it — {shown} — together has no inertia in a direction in which "
        f"the joint can move.\n"
        f"{_OF_BEAMS if modes else ''}"
        f"Give one of them inertia, or give the joint rotor inertia:\n"
        f"    model.with_body({name!r}, armature={armature})"
    )


_OF_BEAMS = (
    "A beam has inertia about its own axis only with rotary_inertia=…, and modes of a clamped beam "
    "nearly contain its rotation at the root.\n"
)


def _rounded_up(least: float, width: int) -> str:
    """Ten times the least inertia that counts, with one digit, for every direction of a joint."""
    number = f"{10 * least:.0e}"
    return number if width == 1 else f"({', '.join([number] * width)})"
