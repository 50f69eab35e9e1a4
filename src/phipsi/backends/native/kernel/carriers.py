"""Sweeps that only bodies with points outboard need: of the others nobody reads what they compute.

The accelerations at the feet of a standing robot, say, and the admittances where their paths meet:
what a sweep from the base computes for points alone need not reach arms and head.

Reasons: docs/decisions/0058.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from phipsi.backends.native.kernel.phases import Phase
from phipsi.backends.native.kernel.plan import is_column, is_remade, root
from phipsi.model.model import Model
from phipsi.model.points import PointSet
from phipsi.sweeps.ir import Domain, Field, Reads, Step, StepKind, dependencies

_AT_POINTS = (Domain.POINT, Domain.LINK, Domain.ROW)


def for_points_only(phases: Collection[Phase], outputs: Collection[Field]) -> list[Step]:
    """The sweeps from the base to the tips of which only bodies with points outboard are read."""
    everywhere = _needed_everywhere(phases, outputs)

    def kept(step: Step) -> bool:
        return any(x in everywhere for x in step.fields if root(x) is x and not is_remade(x))

    sweeps = [s for p in phases if p.columns == "" for s in p.steps]
    return [s for s in sweeps if s.kind is StepKind.BASE_TO_TIP and not kept(s)]


def _needed_everywhere(phases: Collection[Phase], outputs: Collection[Field]) -> set[Field]:
    """The fields of bodies that are needed at bodies without points too."""
    stack = list(outputs)
    for p in phases:
        for x in (*p.pairs, *(x for s in p.steps for x in s.fields)):
            if not _reads_like_points(x, p) and not _reads_here(x):
                stack += dependencies(x)
    out: set[Field] = set()
    while stack:
        x = stack.pop()
        if x in out:
            continue
        out.add(x)
        in_world = x.type.domain is Domain.WORLD and x.operation.reads is not Reads.MEETING
        if in_world or _reads_here(x):  # paths that meet are dealt with above
            stack += dependencies(x)
    return out


def _reads_here(x: Field) -> bool:
    """True for a field of bodies that reads what is at the same body or at its parent."""
    ordinary = x.type.domain is Domain.BODY and not is_column(x)
    return ordinary and x.operation.reads is not Reads.CHILDREN


def _reads_like_points(x: Field, phase: Phase) -> bool:
    """True for what is at points, or on the paths from points to the roots."""
    if x.operation.reads is Reads.MEETING or (x.type.cols == "p" and phase.seed is not None):
        return phase.seed_kind in ("point", "link")
    return x.type.domain in _AT_POINTS


def carriers(model: Model, points: PointSet) -> np.ndarray:
    """The bodies with points outboard or on themselves, parents first."""
    found: set[int] = set()
    for k in points.body:
        while k >= 0 and k not in found:
            found.add(int(k))
            k = model.parent[k]
    return np.array(sorted(found), dtype=np.int64)
