"""Tables of the columns that run along paths: which of them go together, and which meet where.

A column of a causal operator lives on the path from its seed's body to the root. A kernel for many
configurations takes one column at a time; a kernel for one configuration takes several at once,
one per lane, if their seeds lie on one path.

Two paths meet at the nearest common ancestor c of their starts. With bodies numbered depth first,
the seeds that meet the path of a later seed at c are a range: those in the subtree of c before the
child d through which the path came (``first[c] … first[d]``), or, if the first step goes to the
parent, those after c up to and including d. What a path leaves for later ones is kept where it
starts and at bodies with several children; it is not read elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phipsi.backends.native.data_record import GROUP_SIZE
from phipsi.model.closures import NO_CLOSURES
from phipsi.model.model import Model
from phipsi.model.points import PointSet


@dataclass(frozen=True, eq=False)
class Seeds:
    """The columns of one kind of seed ("joint", "body", "parameter", "point" or "link").

    `single` and `together` hold groups (rows of start, column, count, rank, element) of one column
    and of up to as many as there are lanes; `first` (n + 1) the number of seeds before each body in
    the order of the paths; `column` the column of each seed in that order.
    """

    single: np.ndarray
    together: np.ndarray
    first: np.ndarray
    column: np.ndarray


def seeds_of(kind: str, model: Model, points: PointSet, lanes: int) -> Seeds:
    """The tables of one kind of seed."""
    n = model.n_bodies
    if kind == "joint":
        body = np.repeat(np.arange(n), [j.nv for j in model.joints])
        column = np.arange(model.nv)
        wholes = element = body  # seeds on one path may go together
    elif kind in ("body", "parameter"):
        width = 6 if kind == "body" else 10
        body = np.repeat(np.arange(n), width)
        column = np.arange(width * n)
        wholes = element = column // width
    elif kind == "link":
        closures = points.closures or NO_CLOSURES
        where = np.array(points.body, dtype=np.int64)[closures.link_point]
        element = np.argsort(where, kind="stable")
        body, column = where[element], closures.link_row[element]
        wholes = closures.link_point[element]
    else:
        where = np.array(points.body, dtype=np.int64)
        order = np.argsort(where, kind="stable")
        body = np.repeat(where[order], 6)
        column = (6 * order[:, None] + np.arange(6)).reshape(-1)
        wholes = element = column // 6
    single = np.column_stack([body, column, np.ones_like(column), np.arange(len(column)), element])
    first = np.searchsorted(body, np.arange(n + 1))
    together = _together(kind, model, body, column, wholes, element, lanes)
    return Seeds(*(np.ascontiguousarray(a, dtype=np.int64)
                   for a in (single, together, first, column)))  # fmt: skip


def _together(
    kind: str,
    model: Model,
    body: np.ndarray,
    column: np.ndarray,
    wholes: np.ndarray,
    element: np.ndarray,
    lanes: int,
) -> np.ndarray:
    rows: list[tuple[int, int, int, int, int]] = []
    count = 0
    for s in range(len(column)):
        fits = 0 < count < lanes
        if fits and kind == "joint":  # the same body, or a child of the last one
            fits = body[s] == body[s - 1] or model.parent[body[s]] == body[s - 1]
        elif fits:
            fits = wholes[s] == wholes[s - 1]
        count = count + 1 if fits else 1
        if fits:
            rows.pop()
        start = s - count + 1
        rows.append((int(body[s]), int(column[start]), count, start, int(element[start])))
    return np.array(rows, dtype=np.int64).reshape(-1, GROUP_SIZE)


def branch_slots(model: Model) -> tuple[np.ndarray, int]:
    """(n): 0, or for a body with several children 1 + how many such bodies it has above it.

    With the number of different values.
    """
    children = np.zeros(model.n_bodies, dtype=np.int64)
    for p in model.parent:
        if p >= 0:
            children[p] += 1
    above = np.zeros(model.n_bodies, dtype=np.int64)
    for k, p in enumerate(model.parent):
        if p >= 0:
            above[k] = above[p] + (children[p] > 1)
    slots = np.where(children > 1, above + 1, 0)
    return slots, int(slots.max(initial=0)) + 1
