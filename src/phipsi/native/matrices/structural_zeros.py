"""Entries of matrices that are always zero: no path leads from the one body to the other.

Between joints of different branches, say, or of the parameters of a body and a joint that does not
carry it. A kernel for many configurations never writes them, so its buffer is cleared once per call
instead of once per group, and they are not read when results are given out.

Reasons: docs/decisions/0027.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phipsi.core.expressions import Space
from phipsi.core.model import Model, PointSet
from phipsi.core.sweeps import Field, Reads, Result, dependencies, parts_of, reached, space_of

_PER_BODY = ("joint", "body", "parameter", "point")


def of_blocks(x: Field) -> bool:
    """True for a whole matrix that is assembled from blocks, part by part."""
    return x.operation.reads is Reads.BLOCKS


def zeros_stay(r: Result) -> bool:
    """True if a group of configurations overwrites the other entries and leaves the zeros alone."""
    if not _of_paths(r) or r.left is not None:
        return False
    between_joints = r.takes.index == r.gives.index == "joint"
    return between_joints or all(part.how != "diagonal" for part, _ in parts_of(r.field))


def as_matrix(x: Field, layout: str) -> Result:
    """A whole matrix that is not a result: a factor of a product, or one that is solved with."""
    return Result(x, layout, space_of(x.type.cols), space_of(x.type.rows))


def both_factors(r: Result) -> tuple[Result, Result]:
    """The factors of a product, as matrices of their own."""
    assert r.left is not None
    return as_matrix(r.left, "factor"), as_matrix(r.field, "factor")


def factors_of(results: Sequence[Result]) -> list[Result]:
    """The factors of all products that are not results themselves."""
    plain = {r.field for r in results if r.layout == "blocks" and r.left is None}
    found = [x for r in results if r.left is not None for x in both_factors(r)]
    return list({x.field: x for x in found if x.field not in plain}.values())


def _of_paths(r: Result) -> bool:
    if r.layout not in ("blocks", "factor") or not of_blocks(r.field):
        return False
    if r.takes.index not in _PER_BODY or r.gives.index not in _PER_BODY:
        return False
    whole = ("path", "path of adjoint", "diagonal")
    parts = parts_of(r.field)
    if meets_once(r.field):
        return parts[0][1].operation.reads is not Reads.PATHS
    return all(part.how in whole for part, _ in parts) and written_once(r.field)


def meets_once(matrix: Field) -> bool:
    """True for one product where two paths meet: those of two columns do so once, or never.

    Those of constraint rows, which have several paths, may meet again.
    """
    if _between_rows(matrix):
        return False
    return [part.how for part, _ in parts_of(matrix)] == ["pairs"]


def _between_rows(matrix: Field) -> bool:
    return "row" in (space_of(size).index for size in (matrix.type.rows, matrix.type.cols))


def is_gram(r: Result) -> bool:
    """True for a matrix that is one `gram` product: zero between trees, and there only."""
    if not of_blocks(r.field) or r.left is not None or len(r.field.args) != 1:
        return False
    return r.field.args[0].operation.reads is Reads.PATHS


def filled_chunks(r: Result, model: Model, points: PointSet, lanes: int) -> np.ndarray:
    """One byte per `lanes` entries of a matrix: whether any of them may be non-zero."""
    entries = np.ravel(filled(r, model, points))
    rest = -len(entries) % lanes
    chunks = np.concatenate([entries, np.zeros(rest, dtype=bool)]).reshape(-1, lanes)
    return np.ascontiguousarray(chunks.any(axis=1), dtype=np.uint8)


def filled(r: Result, model: Model, points: PointSet) -> np.ndarray:
    """(rows, columns): whether a path leads from the column's body to the row's, or back.

    Of a product where paths meet: whether they can, in one tree.
    """
    rows, columns = (_bodies(space, model, points)[None, :] for space in (r.gives, r.takes))
    hows = {part.how for part, _ in parts_of(r.field)}
    out = np.zeros((rows.size, columns.size), dtype=bool)
    if "path" in hows:
        out |= model.tree.on_path(rows.T, columns)
    if "path of adjoint" in hows:
        out |= model.tree.on_path(columns.T, rows).T
    if "pairs" in hows:
        roots = _roots(model)
        out |= (roots[rows.T] == roots[columns]) & (rows.T >= 0)
    return out | (rows.T == columns if "diagonal" in hows else False)


def _roots(model: Model) -> np.ndarray:
    """The body at the root of each body's tree, and at last −1, that of the world."""
    roots: list[int] = []
    for k, p in enumerate(model.parent):
        roots.append(k if p < 0 else roots[p])
    return np.array([*roots, -1], dtype=np.int64)


def _bodies(space: Space, model: Model, points: PointSet) -> np.ndarray:
    """The body of every component of a vector."""
    if space.index == "point":
        return np.repeat(np.array(points.body, dtype=np.int64), 6)
    widths = [j.nv for j in model.joints] if space.index == "joint" else space.width or 6
    return np.repeat(np.arange(model.n_bodies), widths)


def written_once(matrix: Field) -> bool:
    """True if no entry off the diagonal blocks gets more than one term, with coefficient one.

    A constraint row has a path for each of its links, and where they meet they are added.
    """
    parts = parts_of(matrix)
    if _between_rows(matrix):
        return False
    paths = [(p, y) for p, y in parts if p.how.startswith("path")]
    several = len({p.how for p, _ in paths}) < len(paths) or any(p.how == "pairs" for p, _ in parts)
    alone = len(parts) == 1  # nothing else is written where the path starts
    return not several and all(p.coefficient == 1 and (alone or _behind_up(y)) for p, y in paths)


def _behind_up(x: Field) -> bool:
    """True for a path that has nothing at the body it starts from."""
    return all(y.operation.reads is not Reads.SEED for y in reached([x], on_path))


def on_path(y: Field) -> Sequence[Field]:
    """What a value on a path is computed from at the same body; sums come from the one before."""
    return () if y.operation.reads is Reads.CHILDREN or y.type.cols != "p" else dependencies(y)


def joints_above(model: Model) -> np.ndarray:
    """(nv, nv): whether the joint of rate t is that of rate i or above it, at [i, t]."""
    bodies = np.repeat(np.arange(model.n_bodies), [j.nv for j in model.joints])[None, :]
    return model.tree.on_path(bodies.T, bodies).T
