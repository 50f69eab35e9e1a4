"""What a system says about itself: loops, mobility, and why it cannot be closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric, turned_over
from phipsi.algorithms.kinematics.ik_problem import Chart
from phipsi.errors import ConvergenceError
from phipsi.model.closure_text import ends, loop_bodies
from phipsi.model.closures import Closure

if TYPE_CHECKING:
    from phipsi.algorithms.constrained.system import System

Array = NDArray[Any]

# Rates of rows that remain after projection, relative to the speeds they come from.
_RATE_ERROR = 1e-8


def open_loops(
    system: System,
    q: Array,
    tolerance: float,
    chart: Chart,
    failed: int,
    count: int,
    *,
    projecting: bool = False,
) -> str:
    """Which loops stay open at q, by how much, and what may help."""
    what = "cannot be brought back onto its constraints" if projecting else "cannot be assembled"
    lines = [f"the system {what} from here:"]
    if count > 1:
        lines = [f"{failed} of {count} configurations cannot be assembled; the first of them:"]
    lines += open_loops_at(system, q, tolerance)
    at_limits = chart.joints_at_limits(q)
    if at_limits:
        lines.append(f"    joints at a limit there: {', '.join(at_limits)}")
    lines.append(
        "The bodies may be too short or the limits too narrow to close it, or the start is too far "
        "off.\nOther starts, and without joint limits:\n"
        "    system.assemble(q0, restarts=20)      system.assemble(q0, limits=False)\n"
        "error.result is the best configuration found."
    )
    return "\n".join(lines)


def open_loops_at(system: System, q: Array, tolerance: float) -> list[str]:
    """A line or two about every loop that is open or turned over at q (nq,)."""
    model, rows = system.model, system.rows
    lines: list[str] = []
    values, found = rows.residual(q[None], rows.poses(q[None]))
    over = dict(zip(rows.pairs.tolist(), turned_over(found, rows)[0].tolist(), strict=True))
    place = {int(i): k for k, i in enumerate(rows.pairs)}
    # a loop that cannot close holds the iteration up: the others are then nearly closed
    least = max(tolerance, 1e-3 * float(np.abs(values).max(initial=0.0)))
    for i, closure in enumerate(system.closures.closures):
        mine = np.abs(values[0][system.closures.row_closure == i])
        if not mine.size or (mine.max() <= least and not over.get(i, False)):
            continue
        gap = _gap(closure, values[0][system.closures.row_closure == i])
        if i in place and closure.angular in ("axis", "all"):
            R = found.R[0, place[i]]
            cosine = R[2, 2] if closure.angular == "axis" else (np.trace(R) - 1) / 2
            turn = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
            gap += f", {turn:.3g}° between its frames"
        if over.get(i, False):
            gap += "; it is turned over: its axes point against each other"
        path = " – ".join(loop_bodies(model, closure))
        lines.append(f"    {closure.name!r} between {ends(model, closure)} stays open by {gap}")
        lines.append(f"        the loop: {path}")
    return lines


def rate_errors(system: System, at: ConstraintMetric, v: Array) -> str:
    """Rows whose rates cannot be what they should, as an error's text; empty if there are none."""
    wrong = np.einsum("nrv,nv->nr", at.jacobian, v) - system.rates
    size = np.abs(at.jacobian).max(axis=(-1, -2), initial=0.0) * np.abs(v).max(axis=-1, initial=0.0)
    scale = size + np.abs(system.rates).max(initial=0.0)
    bad = np.abs(wrong) > _RATE_ERROR * scale[:, None]
    # without prescribed rates v = 0 is always admissible: what is left is rounding near a rank drop
    if not system.rates.any() or not bad.any():
        return ""
    element = int(np.flatnonzero(bad.any(axis=1))[0])
    names = [
        f"{system.row_names[i]!r} (asked {system.rates[i]:.4g}, possible "
        f"{system.rates[i] + wrong[element, i]:.4g})"
        for i in np.flatnonzero(bad[element])
    ]
    return (
        f"the prescribed rates contradict each other or the loops: no motion has\n    "
        f"{', '.join(names)}.\nThese rows depend on each other there; system.mobility(q).redundant "
        f"names rows that the others imply."
    )


def summary(system: System, q: ArrayLike | None) -> str:
    """The text of `System.summary`."""
    model = system.model
    lines = [
        f"{model.n_bodies} bodies, {model.nv} rates, {_count(len(system.constraints))}, "
        f"{system.n_rows} rows"
    ]
    if system.cut_joints:
        lines.append(f"cut joints: {', '.join(map(repr, system.cut_joints))}")
    for constraint, closure in zip(system.constraints, system.closures.closures, strict=True):
        path = " – ".join(loop_bodies(model, closure))
        kind = type(constraint).__name__
        lines.append(f"  {closure.name!r}: {kind}, {len(closure.rows)} rows; {path}")
    lines.append(f"mobility by counting (Grübler): {model.nv} − {system.n_rows} = "
                 f"{model.nv - system.n_rows}")  # fmt: skip
    where = "there"
    if q is None:
        try:
            q, where = system.assemble(), "at the assembly nearest to neutral"
        except ConvergenceError:
            lines.append("mobility at a configuration: give one, summary(q); neutral q is far off")
            return "\n".join(lines)
    found = system.mobility(q)
    lines.append(f"mobility {where}: {model.nv} − rank {found.rank} = {found.mobility}")
    if found.redundant:
        lines.append(
            f"  {len(found.redundant)} redundant rows (forces in them are not determined by rigid "
            f"bodies): {', '.join(found.redundant)}"
        )
    return "\n".join(lines)


def _gap(closure: Closure, values: Array) -> str:
    """The size of the residual of one closure, with units."""
    if closure.matrix is not None:
        return f"{np.abs(values).max():.4g}"
    linear = [v for v, form in zip(values, closure.forms, strict=True) if form[0] in "rd"]
    if linear:
        return f"{float(np.linalg.norm(linear)):.4g} m"
    return f"{np.abs(values).max():.4g} rad"


def _count(n: int) -> str:
    return f"{n} constraint" if n == 1 else f"{n} constraints"
