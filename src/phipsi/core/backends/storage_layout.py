"""Storage layouts: how block fields stand in the arrays that users pass in and get back."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from phipsi.core.expressions import Space, row_count
from phipsi.core.model import Model, PointSet
from phipsi.core.operators import DIRECTIONS, row_named
from phipsi.core.sweeps import Domain, Field, LoweredRequest, Request
from phipsi.errors import InputError

Array = np.ndarray


def space_blocks(space: Space, model: Model, points: PointSet) -> list[slice]:
    """Rows of every block of a space in a dense matrix."""
    if space.index == "joint":
        return list(model.v_slices)
    if space.index == "body" and model.has_more_rows:
        return body_slices(model)
    bodies, rows = model.n_bodies, row_count(points)
    counts = {"body": bodies, "parameter": bodies, "point": len(points), "row": rows, "world": 1}
    width = space.width or 6
    return [slice(width * i, width * (i + 1)) for i in range(counts[space.index])]


def body_slices(model: Model) -> list[slice]:
    """Rows of every body in a dense matrix: six, and one for each mode."""
    ends = list(accumulate((6 + n for n in model.more_rows), initial=0))
    return [slice(a, b) for a, b in pairwise(ends)]


def body_width(model: Model) -> int:
    """Rows of the blocks of bodies in arrays: six and the most modes that a body has.

    Rows of modes that a body does not have are zero. Motions and forces have six numbers.
    """
    return 6 + max(model.more_rows, default=0)


def vector_shape(space: Space, model: Model, points: PointSet) -> tuple[int, ...]:
    """Trailing shape of a vector of the space in storage layout."""
    shapes: dict[str, tuple[int, ...]] = {
        "joint": (model.nv,),
        "body": (model.n_bodies, 6),
        "parameter": (model.n_bodies, 10),
        "point": (len(points), 6),
        "row": (row_count(points),),
        "world": (6,),
        "one": (),
    }
    if space.is_curved:
        return (*shapes[space.index][:-1], 4, 4) if space.of_poses else (model.nq,)
    return shapes[space.index]


def block_shape(takes: Space, gives: Space, model: Model) -> tuple[int, ...]:
    """Trailing shape of diagonal blocks in storage layout."""
    n, nv = model.n_bodies, model.nv
    widest = max((j.nv for j in model.joints), default=0)
    rows, cols = (body_width(model) if s.index == "body" else s.width for s in (gives, takes))
    if rows and cols:
        return (n, rows, cols)
    if rows:
        return (rows, nv)
    if cols:
        return (nv, cols)
    return (n, widest, widest)


def argument_shapes(m: Model, points: PointSet) -> dict[str, tuple[int, ...]]:
    """Trailing shape of the quantities that expressions can be about."""
    return {
        "q": (m.nq,),
        "v": (m.nv,),
        "vdot": (m.nv,),
        "tau": (m.nv,),
        "f_ext": (m.n_bodies, 6),
        "f0": (len(points), 6),
        "free": (m.nv,),
        "Udot": (row_count(points),),
        "dinertia": (m.n_bodies, 10),
        **{name: (m.nv,) for name in DIRECTIONS},
    }


def input_shapes(request: Request, lowered: LoweredRequest, m: Model) -> dict[str, tuple[int, ...]]:
    """Trailing shape of every input; −1 stands for a number of columns that is free."""
    points = request.points
    shapes = argument_shapes(m, points)
    for name in request.inputs:
        if name in ("pose", "placement"):
            shapes[name] = (m.n_bodies, 4, 4)
            continue
        row = row_named(name, request.expressions)
        assert row is not None
        if name == "gravity":
            shapes[name] = (3,)
        elif name == "H":  # stored as its transpose, the hinge axes
            shapes[name] = (body_width(m), m.nv)
        elif row.takes.index == "one":
            shapes[name] = vector_shape(row.gives, m, points)
        elif row.takes.index == "point":
            shapes[name] = (len(points), 6, 6)
        else:
            shapes[name] = block_shape(row.takes, row.gives, m)
    operands = [n for n in lowered.inputs if n not in shapes]
    for name, space in zip(operands, lowered.operands, strict=True):
        tail = (-1,) if request.columns else ()
        shapes[name] = (*vector_shape(space, m, points), *tail)
    return shapes


def block_rows(space: Space, which: Any, model: Model, points: PointSet) -> slice:
    """Rows of one block of a space: by body (or joint) name, or by the number of a point."""
    if space.index == "point":
        if not isinstance(which, int) or not 0 <= which < len(points):
            raise InputError(f"block {which!r}: points are numbered 0 … {len(points) - 1}")
        return slice(6 * which, 6 * which + 6)
    if space.index == "row":
        names = () if points.closures is None else points.closures.row_names
        if which not in names:
            raise InputError(f"block {which!r}: the constraint rows are {', '.join(names)}")
        return slice(names.index(which), names.index(which) + 1)
    if space.index == "world":
        return slice(0, 6)
    if space.index == "joint":
        known = which in model.joint_names
        k = model.joint_index(which) if known else model.body_index(which)
        return model.v_slices[k]
    return space_blocks(space, model, points)[model.body_index(which)]


def read_input(a: Array, x: Field, k: int, model: Model) -> Array:
    """The block of an input field at body or point k."""
    rows, cols = x.type.rows, x.type.cols
    hinge = model.v_slices[k] if "r" in (rows, cols) else slice(0)
    width = hinge.stop - hinge.start if "r" in (rows, cols) else 0
    if "b" in (rows, cols):
        return _read_body(a, rows, cols, k, hinge, 6 + model.more_rows[k])
    if x.type.domain is Domain.WORLD:
        return a[..., None, None] if rows == "1" else a[..., None] if cols == "1" else a
    if x.type.domain is Domain.ROW:
        return a[..., k : k + 1, None] if cols == "1" else a[..., k : k + 1, :]
    if cols == "1":
        return a[..., hinge, None] if rows == "r" else a[..., k, :, None]
    if cols == "c":
        return a[..., hinge, :] if rows == "r" else a[..., k, :, :]
    if rows == "r" and cols == "r":
        return a[..., k, :width, :width]
    if cols == "r":
        return a[..., :, hinge]
    if rows == "r":
        return a[..., hinge, :]
    return a[..., k, :, :]


def _read_body(a: Array, rows: str, cols: str, k: int, hinge: slice, size: int) -> Array:
    """The block of body k, without the rows of modes that it does not have."""
    if rows == "r":
        return a[..., hinge, :size]
    if cols == "r":
        return a[..., :size, hinge]
    if rows == "b":
        return a[..., k, :size, : size if cols == "b" else a.shape[-1]]
    return a[..., k, :, :size]


def write_vector(
    values: Any,
    space: Space,
    model: Model,
    points: PointSet,
    batch: tuple[int, ...],
    dtype: Any,
    columns: bool,
    whole: bool = False,
) -> Array:
    """A vector (or several columns) of a space as one array in storage layout.

    Columns of a `whole` matrix have all rows of the bodies, one after the other.
    """
    if space.index in ("one", "world"):
        out = np.broadcast_to(values, (*batch, *values.shape[-2:]))
        out = out[..., 0, :] if space.index == "one" else out
        return np.array(out if columns else out[..., 0])
    if not values:
        shape = vector_shape(space, model, points)
        return np.zeros((*batch, *shape, *((0,) if columns else ())), dtype=dtype)
    blocks = [np.broadcast_to(v, (*batch, *v.shape[-2:])) for v in values]
    flat = whole or space.index in ("joint", "row")
    joined = np.concatenate(blocks, -2) if flat else np.stack(blocks, -3)
    return np.ascontiguousarray(joined if columns else joined[..., 0])


def write_blocks(
    values: Any, takes: Space, gives: Space, model: Model, batch: tuple[int, ...], dtype: Any
) -> Array:
    """Diagonal blocks in storage layout; hinge blocks are padded with zeros."""
    out = np.zeros((*batch, *block_shape(takes, gives, model)), dtype=dtype)
    for k, value in enumerate(values):
        hinge = model.v_slices[k]
        width = hinge.stop - hinge.start
        rows, cols = value.shape[-2:]
        if gives.width and takes.width:
            out[..., k, :rows, :cols] = value
        elif gives.width:
            out[..., :rows, hinge] = value
        elif takes.width:
            out[..., hinge, :cols] = value
        else:
            out[..., k, :width, :width] = value
    return out


def write_poses(values: Any, batch: tuple[int, ...], dtype: Any) -> Array:
    """Homogeneous matrices (..., n, 4, 4) of bodies or of points."""
    out = np.zeros((*batch, len(values), 4, 4), dtype=dtype)
    for k, value in enumerate(values):
        out[..., k, :, :] = value
    return out
