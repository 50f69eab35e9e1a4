"""Constraint rows that elimination without pivoting is in doubt about, solved by singular values.

Machine code eliminates rows in a fixed order and takes a pivot that is rounding error for a row
that follows from those before it. Where such a row then asks for something else than they give, the
row may be independent after all (near a singular configuration), the loops may be open a little, or
the constraints contradict each other. These elements of a batch are flagged and come here.

G L⁻* is decomposed, ℳ = L L*: its singular values are the roots of those of A Λ A*, so that rows
count as independent down to 1e-9 of the largest instead of 1e-5, and not down to what the gap of
the loops explains (`row_rank`): redundant rows are as far from dependent as the loops are open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric
from phipsi.algorithms.constrained.constraint_rows import ClosureRows, rows_of
from phipsi.algorithms.forms import forward, loaded
from phipsi.backends.failures import CONTRADICTION, ROW_GAP, ROW_GAP_LEAST
from phipsi.backends.program import Program
from phipsi.compiler import program_of
from phipsi.model.model import Model

Array = NDArray[Any]
Inputs = dict[str, Array]


def with_near_singular_rows(program: Program, system: Model, how: Callable[..., Any]) -> Program:
    """The program of a system, with `how` for elements whose rows are in doubt."""
    rows = rows_of(system)
    if program.resolve is None:
        program.resolve = lambda inputs: how(rows, inputs)
    return program


def accelerations(rows: ClosureRows, inputs: Inputs) -> tuple[tuple[Array, Array], Array]:
    """(vdot, f) of constrained dynamics at n states, and a status for each."""
    q, v, tau = (inputs[name] for name in ("q", "v", "tau"))
    loads = [inputs["f_ext"]] if "f_ext" in inputs else []
    free = program_of(loaded(forward, bool(loads)), rows.model)(q, v, tau, *loads)
    at = ConstraintMetric(rows, q)
    asked = inputs.get("Udot", 0.0) - rows.bias(q, v)
    wanted = asked - np.einsum("nrv,nv->nr", at.jacobian, free)
    f = -at.without_self_stress(at.multipliers(wanted))
    return (free + at.solve(wanted), f), _status(at, wanted)


def impulses(rows: ClosureRows, inputs: Inputs) -> tuple[tuple[Array, Array], Array]:
    """(v − v⁺, p) of rows that are switched on at n states, and a status for each."""
    q, v = inputs["q"], inputs["v"]
    at = ConstraintMetric(rows, q)
    wanted = np.einsum("nrv,nv->nr", at.jacobian, v) - inputs["Udot"]
    return (at.solve(wanted), at.multipliers(wanted)), _status(at, wanted)


def _status(at: ConstraintMetric, wanted: Array) -> Array:
    """0, or that of the row that is furthest from what the others allow."""
    wrong = np.abs(at.contradiction(wanted))
    limit = ROW_GAP * np.abs(wanted).max(axis=-1, initial=0.0) + ROW_GAP_LEAST
    worst = wrong.argmax(axis=-1)
    return np.where(wrong.max(axis=-1) > limit, CONTRADICTION + 8 * (worst + 1), 0)
