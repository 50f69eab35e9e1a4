"""The whole pipeline in one function: expression → rewritten → equations → sweeps → program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from phipsi.backends.program import Program
from phipsi.expressions.node import Expr
from phipsi.model.model import Model
from phipsi.model.points import PointSet, point_set
from phipsi.rewrite import engine
from phipsi.sweeps.request import Request, check_request, lower_request
from phipsi.sweeps.schedule import schedule

_CACHE: WeakKeyDictionary[Model, dict[Any, Program]] = WeakKeyDictionary()


def compile(
    expr: Expr | Sequence[Expr],
    model: Model,
    *,
    mode: str | Sequence[str] = "apply",
    blocks: Sequence[tuple[Any, Any]] | None = None,
    columns: bool = False,
    points: Sequence[Any] | PointSet | None = None,
    given: Sequence[str] = (),
    rewrite: str = "full",
    backend: str = "reference",
    reproducible: bool = False,
) -> Program:
    """Turn operator expressions into a program for one model.

    A tuple of expressions gives a tuple of results that share their sweeps. Vectors and scalars are
    evaluated; operators are applied to an operand (``mode="apply"``), written out as matrices
    ("dense"), or picked block by block ("blocks": the pairs in `blocks`, or all diagonal blocks in
    storage layout). `columns` lets operands have several columns, on the last axis. `points` are
    ``[(body_or_frame, offset), …]`` for B and J. Quantities named in `given` become inputs instead of
    being computed. ``rewrite="as_written"`` keeps the form and only shares and fuses.

    >>> import phipsi as pp
    >>> from phipsi.operators import mass_matrix
    >>> arm = pp.examples.planar_arm(2)
    >>> solve = pp.compile(mass_matrix.inv, arm)
    >>> solve.inputs
    ('q', 'x')
    >>> solve([0.0, 0.5], [1.0, 0.0]).shape
    (2,)
    """
    where = point_set(model, points)
    request = Request.make(expr, mode, blocks, columns, given, rewrite, where)
    key = (request, backend, reproducible)
    programs = _CACHE.setdefault(model, {})
    if key not in programs:
        programs[key] = build(request, model, backend)
    return programs[key]


def build(request: Request, model: Model, backend: str) -> Program:
    """The pipeline: every pass is a line."""
    check_request(request, model, backend)
    rewriting = engine.rewrite(request, armature=model.has_armature)
    lowered = lower_request(request, rewriting.expressions, model)
    steps = schedule(lowered.fields)
    return Program(request, rewriting, lowered, steps, model)
